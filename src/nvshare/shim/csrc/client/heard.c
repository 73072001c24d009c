/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all frames that a scheduler sends, and what each is for. No state beside the
 * client's record, no lock.
 */
#include "client/heard.h"

#include <stdbool.h>
#include <stddef.h>

#include "client/posts.h"
#include "client/record.h"
#include "client/sleep_frames.h"
#include "gate/device.h"
#include "gate/gang_page.h"
#include "memory/room.h"
#include "memory/swap/arena.h"
#include "memory/swap/exports.h"
#include "memory/swap/parts.h"
#include "memory/away/store.h"
#include "process/clock.h"
#include "ties/ties.h"

#define LEAST_INTERVAL_US 10000u /* whatever a scheduler says */

static enum nvs_heard right_if(bool right)
{
	return right ? NVS_HEARD_WHOLE : NVS_HEARD_WRONG;
}

static enum nvs_heard hear_lock(struct nvs_client *client, const struct nvs_frame *frame)
{
	(void)client, (void)frame;
	return NVS_HEARD_BY_LOCK;
}

static enum nvs_heard hear_reason(struct nvs_client *client, const struct nvs_frame *frame)
{
	if (frame->request != NVS_REASON_OF_MEMORY)
		return NVS_HEARD_BY_LOCK;
	nvs_memory_say_why(client->device, client->connection.text);
	return NVS_HEARD_WHOLE;
}

static enum nvs_heard hear_gang(struct nvs_client *client, const struct nvs_frame *frame)
{
	const struct nvs_file *page = &client->connection.descriptor;
	bool right = (page->number >= 0) == (frame->gang.slots > 0);

	if (right && frame->gang.slots)
		right = nvs_gang_enter(client->device, nvs_file_number(page),
				       frame->gang.page_bytes, frame->gang.slot, frame->gang.slots);
	return right ? NVS_HEARD_BY_LOCK : NVS_HEARD_WRONG;
}

static enum nvs_heard hear_joined(struct nvs_client *client, const struct nvs_frame *frame)
{
	return right_if(nvs_ties_heard(client->device, frame));
}

static enum nvs_heard hear_watch(struct nvs_client *client, const struct nvs_frame *frame)
{
	struct nvs_progress *progress = &client->progress;

	progress->interval_us = frame->idle_microseconds;
	if (progress->interval_us && progress->interval_us < LEAST_INTERVAL_US)
		progress->interval_us = LEAST_INTERVAL_US;
	progress->next_at = nvs_now_us();
	progress->together = frame->watch.together != 0;
	nvs_tell_others(client);
	return NVS_HEARD_WHOLE;
}

static enum nvs_heard hear_arena(struct nvs_client *client, const struct nvs_frame *frame)
{
	struct nvs_file *file = &client->connection.descriptor;
	uint64_t bytes = frame->memory.segment_bytes;

	if (nvs_store_stage(client->device) != NVS_STORE_MEMORY)
		return right_if(nvs_sleep_hear_memory(client, frame));
	if (!client->memory.swaps || !nvs_arena_is_segment(nvs_file_number(file), bytes))
		return NVS_HEARD_WRONG;
	/* What can't even be put off is asked for again by who registers anew. */
	return right_if(nvs_arena_add(client->device, nvs_file_number(file), bytes) ||
			(nvs_connection_has_spare(&client->connection) &&
			 nvs_arena_put_off(client->device, file, bytes)));
}

static enum nvs_heard hear_room(struct nvs_client *client, const struct nvs_frame *frame)
{
	return right_if(nvs_memory_allot(&client->memory, frame));
}

/* Without a request it is the limit that is not known, and why. */
static enum nvs_heard hear_refusal(struct nvs_client *client, const struct nvs_frame *frame)
{
	if (frame->request && client->memory.link != NVS_ROOM_LINK_UP)
		return NVS_HEARD_WRONG;
	if (frame->request)
		nvs_room_refuse(client->device, frame->request, client->connection.text);
	else
		nvs_room_withhold_limit(client->device, client->connection.text);
	return NVS_HEARD_WHOLE;
}

static enum nvs_heard hear_limit(struct nvs_client *client, const struct nvs_frame *frame)
{
	nvs_room_set_limit(client->device, frame);
	return NVS_HEARD_WHOLE;
}

static enum nvs_heard hear_wish(struct nvs_client *client, const struct nvs_frame *frame)
{
	return right_if(nvs_exports_heard(client->device, frame));
}

/* A thread may have given up meanwhile. */
static enum nvs_heard hear_part(struct nvs_client *client, const struct nvs_frame *frame)
{
	nvs_parts_heard(client->device, frame, client->connection.text,
			&client->connection.descriptor);
	return NVS_HEARD_WHOLE;
}

static enum nvs_heard hear_sleep(struct nvs_client *client, const struct nvs_frame *frame)
{
	nvs_sleep_hear(client, frame);
	return NVS_HEARD_WHOLE;
}

static enum nvs_heard hear_awake(struct nvs_client *client, const struct nvs_frame *frame)
{
	return right_if(nvs_sleep_hear_awake(client, frame->state != 0));
}

static enum nvs_heard hear_store(struct nvs_client *client, const struct nvs_frame *frame)
{
	(void)frame;
	return right_if(nvs_sleep_hear_store(client));
}

static enum nvs_heard hear_step(struct nvs_client *client, const struct nvs_frame *frame)
{
	return right_if(nvs_sleep_hear_step(client, frame->type));
}

enum files {
	NO_FILE,
	A_FILE,
	ANY_FILES
};

static const struct row {
	uint8_t type;
	/* That a registered client's scheduler has at least; 0: at any time, the function decides.
	 */
	enum nvs_level level;
	enum files files;
	enum nvs_heard (*hear)(struct nvs_client *client, const struct nvs_frame *frame);
} rows[] = {
	{ NVS_SCHED_ON, 0, NO_FILE, hear_lock },
	{ NVS_REFUSED, 0, NO_FILE, hear_lock },
	{ NVS_LOCK_OK, 0, NO_FILE, hear_lock },
	{ NVS_DROP_LOCK, 0, NO_FILE, hear_lock },
	{ NVS_WAITERS, 0, NO_FILE, hear_lock },
	{ NVS_REASON, 0, NO_FILE, hear_reason },
	{ NVS_GANG, 0, ANY_FILES, hear_gang },
	{ NVS_JOINED, 0, NO_FILE, hear_joined },
	{ NVS_WATCH, NVS_LEVEL_PROGRESS, NO_FILE, hear_watch },
	{ NVS_ARENA, NVS_LEVEL_SWAP, A_FILE, hear_arena },
	{ NVS_ALLOT, NVS_LEVEL_SWAP, NO_FILE, hear_room },
	{ NVS_EVICT, NVS_LEVEL_SWAP, NO_FILE, hear_room },
	{ NVS_REFUSE_GROWTH, 0, NO_FILE, hear_refusal },
	{ NVS_LIMIT, 0, NO_FILE, hear_limit },
	{ NVS_ASK_SHARED, NVS_LEVEL_SHARE, NO_FILE, hear_wish },
	{ NVS_SHARED, NVS_LEVEL_SHARE, A_FILE, hear_part },
	{ NVS_NOT_SHARED, NVS_LEVEL_SHARE, NO_FILE, hear_part },
	{ NVS_SLEEP, NVS_LEVEL_SLEEP, NO_FILE, hear_sleep },
	{ NVS_AWAKE, NVS_LEVEL_SLEEP, NO_FILE, hear_awake },
	{ NVS_STORE, NVS_LEVEL_SLEEP, A_FILE, hear_store },
	{ NVS_SUM, NVS_LEVEL_SLEEP, A_FILE, hear_step },
	{ NVS_PACK, NVS_LEVEL_SLEEP, A_FILE, hear_step },
	{ NVS_DEDUP, NVS_LEVEL_SLEEP, A_FILE, hear_step },
};

static const struct row *row_of(const struct nvs_frame *frame)
{
	if (frame->magic != NVS_WIRE_MAGIC || frame->version != NVS_WIRE_VERSION)
		return NULL;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == frame->type)
			return &rows[i];
	return NULL;
}

static bool is_time(const struct row *row, const struct nvs_lock_state *state)
{
	return !row->level || (state->link == NVS_LINK_UP && state->level >= row->level);
}

enum nvs_heard nvs_hear(struct nvs_client *client)
{
	struct nvs_connection *connection = &client->connection;
	const struct row *row = row_of(&connection->input);
	bool file = connection->descriptor.number >= 0;
	enum nvs_heard heard = NVS_HEARD_WRONG;

	if (row && is_time(row, &client->state) &&
	    (row->files == ANY_FILES || file == (row->files == A_FILE)))
		heard = row->hear(client, &connection->input);
	if (file)
		nvs_file_end(&connection->descriptor);
	return heard;
}
