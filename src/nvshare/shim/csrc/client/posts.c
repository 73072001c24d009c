/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client tells around itself. No state beside its record, no lock. The counts of progress
 * are kept anyway, by each thread that submits, and are only added up here: who is watched submits
 * as fast as who is not.
 */
#include "client/posts.h"

#include <stdatomic.h>
#include <stdio.h>

#include "client/messages.h"
#include "client/record.h"
#include "client/sleep_frames.h"
#include "gate/device.h"
#include "gate/gang_page.h"
#include "gate/marks.h"
#include "memory/memory.h"
#include "memory/swap/exports.h"
#include "memory/swap/parts.h"
#include "process/clock.h"
#include "process/report.h"
#include "process/terms.h"
#include "ties/ties.h"

static void follow_ties(const struct nvs_client *client)
{
	const struct nvs_lock_state *state = &client->state;

	if (state->link == NVS_LINK_UP)
		nvs_ties_link(client->device, state->level >= NVS_LEVEL_GANG
						      ? NVS_TIES_LINK_UP
						      : NVS_TIES_LINK_WITHOUT);
	/* An attempt changes nothing before it has succeeded or failed. */
	else if (state->link == NVS_LINK_DOWN && state->failures)
		nvs_ties_link(client->device, NVS_TIES_LINK_WITHOUT);
}

static void follow_parts(struct nvs_client *client)
{
	const struct nvs_lock_state *state = &client->state;
	int link = NVS_PARTS_LINK_DOWN;

	if (state->link == NVS_LINK_UP)
		link = state->level >= NVS_LEVEL_SHARE ? NVS_PARTS_LINK_UP : NVS_PARTS_LINK_WITHOUT;
	if (link == client->parts_link)
		return;
	client->parts_link = link;
	nvs_exports_link(client->device, link == NVS_PARTS_LINK_UP);
	nvs_parts_link(client->device, (enum nvs_parts_link)link);
}

void nvs_posts_follow(struct nvs_client *client)
{
	/* Who is not connected is not watched. */
	if (client->state.link != NVS_LINK_UP)
		client->progress = (struct nvs_progress){ .next_at = client->progress.next_at };
	/* A scheduler that registers us says anew who belongs together. */
	if (!client->state.in_gang)
		nvs_gang_leave(client->device);
	follow_ties(client);
	follow_parts(client);
	nvs_sleep_follow(client);
	nvs_tell_others(client);
}

void nvs_tell_others(struct nvs_client *client)
{
	const struct nvs_lock_state *state = &client->state;

	nvs_device_tell_others(
		client->device, state->waiters > 0 || state->lock == NVS_LOCK_DRAINING,
		state->lock == NVS_LOCK_WAITING, client->progress.together, nvs_now_ns());
}

void nvs_post_terms(struct nvs_client *client)
{
	struct nvs_frame frame;

	if (client->state.level < NVS_LEVEL_TERMS)
		return;
	nvs_frame_begin(&frame, NVS_TERMS);
	frame.terms = *nvs_terms();
	nvs_connection_send(&client->connection, &frame);
}

void nvs_post_ties(struct nvs_client *client)
{
	struct nvs_frame frame;

	for (nvs_frame_begin(&frame, 0); nvs_ties_say(client->device, &frame);
	     nvs_frame_begin(&frame, 0))
		nvs_connection_send(&client->connection, &frame);
}

/* In place of a part that can't go now. */
static void say_no(struct nvs_connection *connection, uint32_t request)
{
	struct nvs_frame frame;

	nvs_frame_begin(&frame, NVS_NOT_SHARED);
	frame.request = request;
	snprintf(frame.text, sizeof(frame.text), "too many descriptors are on their way");
	nvs_connection_send(connection, &frame);
}

static bool next_shared(const struct nvs_client *client, struct nvs_frame *frame,
			struct nvs_file *descriptor)
{
	nvs_frame_begin(frame, 0);
	return client->parts_link == NVS_PARTS_LINK_UP && !client->connection.broken &&
	       (nvs_exports_say(client->device, frame, descriptor) ||
		nvs_parts_say(client->device, frame));
}

void nvs_post_notices(struct nvs_client *client)
{
	struct nvs_frame frame;

	if (nvs_message_lost(&frame, client->device, &client->state, &client->lost_known))
		nvs_connection_send(&client->connection, &frame);
	while (nvs_message_notice(&frame, &client->state, &client->notices_known))
		nvs_connection_send(&client->connection, &frame);
}

void nvs_post_shared(struct nvs_client *client)
{
	struct nvs_connection *connection = &client->connection;
	struct nvs_file descriptor;
	struct nvs_frame frame;
	int number;

	while (next_shared(client, &frame, &descriptor)) {
		if (frame.type != NVS_SHARED) {
			nvs_connection_send(connection, &frame);
			continue;
		}
		number = nvs_file_number(&descriptor);
		if (number < 0 || !nvs_connection_send_with(connection, &frame, number))
			say_no(connection, frame.request);
		nvs_file_end(&descriptor);
	}
}

uint64_t nvs_progress_deadline(const struct nvs_client *client)
{
	bool open = client->state.lock == NVS_LOCK_HOLDING && !client->memory.opens;

	return client->progress.interval_us && open ? client->progress.next_at : NVS_LOCK_NEVER;
}

void nvs_post_progress(struct nvs_client *client)
{
	const struct nvs_device *device = client->device;
	uint64_t now = nvs_now_us();
	struct nvs_frame frame;

	if (!client->progress.interval_us)
		return;
	client->progress.next_at = now + client->progress.interval_us;
	nvs_frame_begin(&frame, NVS_PROGRESS);
	frame.progress.at_microseconds = now;
	frame.progress.submissions = nvs_marks_submissions(device);
	/* Those that found nothing first: whoever looks meanwhile makes no more of them than looks.
	 */
	frame.progress.empty_looks = atomic_load(&device->empty_looks);
	frame.progress.looks = atomic_load(&device->looks);
	nvs_connection_send(&client->connection, &frame);
}

static uint32_t flags_of(const struct nvs_lock_state *state)
{
	uint32_t flags = 0;

	if (state->link == NVS_LINK_UP)
		flags |= NVS_REPORT_REGISTERED;
	if (state->refused)
		flags |= NVS_REPORT_REFUSED;
	if (state->lock == NVS_LOCK_HOLDING && !state->grant)
		flags |= NVS_REPORT_UNLOCKED;
	if (state->in_gang)
		flags |= NVS_REPORT_IN_GANG;
	return flags;
}

void nvs_report_lock(const struct nvs_client *client, int before)
{
	const struct nvs_lock_state *state = &client->state;
	const struct nvs_device *device = client->device;
	struct nvs_report_device *report = nvs_report_device(device->ordinal);
	int now = state->lock;

	if (!report)
		return;
	__atomic_fetch_or(&report->flags, flags_of(state), __ATOMIC_RELAXED);
	/* By then it is chosen: choosing asks the driver, which this thread must not. */
	if (state->link == NVS_LINK_UP) {
		report->backend = (uint32_t)nvs_memory_wire_backend(device);
		report->swaps = nvs_memory_swaps(device);
	}
	nvs_marks_report(device);
	report->waits += now == NVS_LOCK_WAITING && before != NVS_LOCK_WAITING;
	report->turns +=
		now == NVS_LOCK_HOLDING && (before == NVS_LOCK_IDLE || before == NVS_LOCK_WAITING);
	report->given_back +=
		before == NVS_LOCK_DRAINING && (now == NVS_LOCK_IDLE || now == NVS_LOCK_WAITING);
}
