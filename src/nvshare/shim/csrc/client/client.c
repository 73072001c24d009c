/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients' threads, one for every device that the process uses. The thread alone touches the
 * record's state and connection; others, its worker among them, only add to `pending`, which wakes
 * it. So nothing here is locked, no thread of the program waits for the scheduler but
 * at the gate, and the scheduler is heard at any time: the thread makes no call that may wait.
 */
#define _GNU_SOURCE
#include "client/record.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/heard.h"
#include "client/lock_state.h"
#include "client/messages.h"
#include "client/posts.h"
#include "client/sleep_frames.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/gang_page.h"
#include "gate/gate.h"
#include "gate/lost.h"
#include "gate/marks.h"
#include "process/clock.h"
#include "process/log.h"

#define UNWOKEN_US 100000 /* what nothing can wake looks as often */

static bool feed(struct nvs_client *client, const struct nvs_lock_event *event);

static void feed_kind(struct nvs_client *client, int kind)
{
	feed(client, &(struct nvs_lock_event){ .kind = kind });
}

/* Frames */

static void post(struct nvs_client *client, const struct nvs_frame *frame)
{
	nvs_connection_send(&client->connection, frame);
}

/*
 * In both of these the bit is taken back before the footprint is read: what changes in between is
 * sent twice rather than never. Where memory swaps REGISTER does not say all of it.
 */
static void post_register(struct nvs_client *client, const struct nvs_lock_action *action)
{
	struct nvs_frame frame;

	nvs_pending_take(&client->pending, NVS_NEWS_FOOTPRINT);
	nvs_message_register(&frame, client->device, &client->state, action);
	nvs_memory_registers(&client->memory, &frame);
	if (client->memory.swaps)
		nvs_pending_add(&client->pending, NVS_NEWS_FOOTPRINT);
	client->notices_known = 0;
	client->lost_known = false;
	nvs_sleep_registers(client);
	post(client, &frame);
}

static uint64_t memory_deadline(const struct nvs_client *client)
{
	return nvs_memory_deadline(&client->memory, &client->state,
				   nvs_pending_has(&client->pending, NVS_NEWS_FOOTPRINT));
}

static void post_memory(struct nvs_client *client, uint64_t now, bool all)
{
	struct nvs_frame frame;

	nvs_pending_take(&client->pending, NVS_NEWS_FOOTPRINT);
	while (nvs_memory_next_frame(&client->memory, now, all, &frame))
		post(client, &frame);
}

/* Feeds one frame; false: there is no whole one now, or no connection any more. */
static bool read_frame(struct nvs_client *client)
{
	struct nvs_lock_event event;
	enum nvs_heard heard;

	switch (nvs_connection_receive(&client->connection)) {
	case NVS_RECEIVED_FRAME:
		heard = nvs_hear(client);
		event = nvs_lock_event_of(&client->connection.input);
		if (heard == NVS_HEARD_WRONG ||
		    (heard == NVS_HEARD_BY_LOCK && !feed(client, &event)))
			feed_kind(client, NVS_EVENT_BAD_FRAME);
		return client->connection.socket.number >= 0;
	case NVS_RECEIVED_NO_FRAME:
		feed_kind(client, NVS_EVENT_BAD_FRAME);
		return false;
	case NVS_RECEIVED_END:
		feed_kind(client, NVS_EVENT_DISCONNECTED);
		return false;
	default:
		return false;
	}
}

/* What the lock's state asks for */

static void open_connection(struct nvs_client *client)
{
	bool connected = nvs_connection_open(&client->connection);

	feed_kind(client, connected ? NVS_EVENT_CONNECTED : NVS_EVENT_CONNECT_FAILED);
}

static void open_gate(struct nvs_client *client)
{
	/* Inside, so that the door is not closed meanwhile; behind a closed one it opens later. */
	client->opens_with_door = !nvs_door_try();
	if (client->opens_with_door)
		return;
	/* Before it opens: nothing of this turn is submitted yet. */
	nvs_post_progress(client);
	nvs_gate_set(client->device, NVS_GATE_OPEN);
	nvs_door_leave();
	/*
	 * Whoever asked until now found the gate closed before this, and it is not closed again
	 * before this thread asks for it. A wish that stayed would bring a second request after the
	 * next release, and a turn that nobody needs.
	 */
	nvs_pending_take(&client->pending, NVS_NEWS_WANTED);
}

/*
 * Nothing passes a gate that waits for memory, or for the door: nothing runs, and yet there is
 * something to do. But another member of a gang may wait for what passes once the memory is there.
 */
static void ask_worker(struct nvs_client *client, enum nvs_job job)
{
	bool opens = client->memory.opens;

	if (client->opens_with_door) {
		client->opens_with_door = job != NVS_JOB_DRAIN;
		nvs_worker_spare(&client->worker, job);
		return;
	}
	if (job == NVS_JOB_DRAIN && !client->state.in_gang)
		nvs_memory_give_up(&client->memory);
	if (job == NVS_JOB_DRAIN)
		nvs_gang_bind(client->device);
	if (opens && !(job == NVS_JOB_DRAIN && client->state.in_gang))
		nvs_worker_spare(&client->worker, job);
	else
		nvs_worker_ask(&client->worker, job);
}

static void say(struct nvs_client *client, const struct nvs_lock_action *action)
{
	struct nvs_frame frame;

	nvs_message_for(&frame, action);
	post(client, &frame);
}

static void release(struct nvs_client *client, const struct nvs_lock_action *action)
{
	nvs_memory_released(&client->memory);
	if (client->state.link != NVS_LINK_UP)
		return;
	/* All that was submitted has completed. */
	nvs_post_progress(client);
	say(client, action);
}

static void carry_out_gate(struct nvs_client *client, int action)
{
	switch (action) {
	case NVS_ACTION_OPEN_GATE:
		nvs_gang_runs(client->device);
		client->opens_with_door = false;
		if (nvs_memory_may_open(&client->memory))
			open_gate(client);
		break;
	case NVS_ACTION_FAIL_GATE:
		nvs_gate_set(client->device, NVS_GATE_FAILING);
		break;
	case NVS_ACTION_LOSE_GATE:
		nvs_memory_lose(&client->memory);
		nvs_gate_set(client->device, NVS_GATE_LOST);
		break;
	case NVS_ACTION_CLOSE_GATE:
		/* Nothing passed it, so there is nothing to drain. */
		nvs_gate_set(client->device, NVS_GATE_CLOSED);
		break;
	case NVS_ACTION_DRAIN:
		ask_worker(client, NVS_JOB_DRAIN);
		break;
	case NVS_ACTION_LOOK:
		ask_worker(client, NVS_JOB_LOOK);
		break;
	default:
		nvs_message_warn(action, client->device, &client->state, &client->connection);
	}
}

static void carry_out(struct nvs_client *client, const struct nvs_lock_action *action)
{
	switch (action->kind) {
	case NVS_ACTION_CONNECT:
		open_connection(client);
		break;
	case NVS_ACTION_DISCONNECT:
		nvs_connection_close(&client->connection);
		break;
	case NVS_ACTION_SEND_REGISTER:
		post_register(client, action);
		break;
	case NVS_ACTION_SEND_REQ_LOCK:
		/*
		 * Whether the client fits beside others is decided by its footprint, so the newest
		 * one goes first.
		 */
		post_memory(client, nvs_now_us(), true);
		client->asked_at = nvs_door_openings();
		say(client, action);
		break;
	case NVS_ACTION_SEND_LOCK_RELEASED:
		release(client, action);
		break;
	case NVS_ACTION_SEND_DRAIN_REPORT:
	case NVS_ACTION_SEND_ASK_REASON:
	case NVS_ACTION_SEND_IDLE:
		say(client, action);
		break;
	default:
		carry_out_gate(client, action->kind);
	}
}

static bool feed(struct nvs_client *client, const struct nvs_lock_event *event)
{
	struct nvs_lock_state *state = &client->state;
	struct nvs_lock_actions actions;
	int link = state->link, lock = state->lock;

	if (!nvs_lock_state_handle(state, event, nvs_now_us(), &actions)) {
		nvs_debug("device %d: %s came while link %s, lock %s", client->device->ordinal,
			  nvs_lock_event_name(event->kind), nvs_link_name(link),
			  nvs_lock_name(lock));
		return false;
	}
	if (state->link != link || state->lock != lock)
		nvs_debug("device %d: %s: link %s, lock %s, grant %llu", client->device->ordinal,
			  nvs_lock_event_name(event->kind), nvs_link_name(state->link),
			  nvs_lock_name(state->lock), (unsigned long long)state->grant);
	if (state->sent_away)
		nvs_lose(client->device, NVS_SENT_AWAY);
	nvs_report_lock(client, lock);
	nvs_memory_follow(&client->memory, state);
	nvs_posts_follow(client);
	/* Before a request for the lock: whether it is for a whole gang; the terms say that this is
	 * all. */
	if (state->link != link && state->link == NVS_LINK_UP) {
		nvs_post_ties(client);
		nvs_post_terms(client);
		nvs_sleep_registered(client);
	}
	for (uint32_t i = 0; i < actions.count; i++)
		carry_out(client, &actions.list[i]);
	return true;
}

/* The thread */

static bool take_report(struct nvs_client *client, enum nvs_worker_report report)
{
	return nvs_pending_take(&client->pending, NVS_PENDING_REPORT * report);
}

/* In the order in which they were said, should they have come together. */
static void handle_reports(struct nvs_client *client)
{
	if (take_report(client, NVS_REPORT_LOOKED))
		feed(client, &(struct nvs_lock_event){ .kind = NVS_EVENT_LOOKED,
						       .completed = client->worker.completed,
						       .submissions = client->worker.submissions });
	if (take_report(client, NVS_REPORT_STEPPING))
		feed_kind(client, NVS_EVENT_STEPPING);
	if (take_report(client, NVS_REPORT_DRAINED)) {
		nvs_memory_give_up(&client->memory);
		feed(client, &(struct nvs_lock_event){
				     .kind = NVS_EVENT_DRAINED,
				     .waiting = atomic_load(&client->device->gate.waiting) > 0 });
	}
	if (take_report(client, NVS_REPORT_PUT_OFF))
		feed_kind(client, NVS_EVENT_PUT_OFF);
}

/* Said before the lock is given back: a program that looks then knows why its calls fail. */
static void lose(struct nvs_client *client)
{
	nvs_message_say_lost(client->device);
	feed_kind(client, NVS_EVENT_LOST);
}

/*
 * All bits are looked at in every round, whatever woke the thread, so a wake-up that came early or
 * was swallowed costs nothing but a round.
 */
static void handle_pending(struct nvs_client *client)
{
	uint64_t now = nvs_now_us();

	nvs_pending_take(&client->pending, NVS_PENDING_NOTICE | NVS_NEWS_ROOM | NVS_NEWS_SHARED |
						   NVS_NEWS_DOOR | NVS_NEWS_STORE);
	if (nvs_pending_take(&client->pending, NVS_NEWS_TIES))
		nvs_post_ties(client);
	/* A look asks the contexts; one that is due meanwhile is done with it. */
	if (nvs_pending_take(&client->pending, NVS_NEWS_SUSPECTED))
		nvs_worker_ask(&client->worker, NVS_JOB_LOOK);
	if (nvs_pending_take(&client->pending, NVS_NEWS_LOST))
		lose(client);
	if (nvs_pending_take(&client->pending, NVS_NEWS_WANTED))
		feed_kind(client, NVS_EVENT_WANTED);
	if (nvs_sleep_asks_again(client))
		feed_kind(client, NVS_EVENT_WOKE);
	if (nvs_pending_take(&client->pending, NVS_NEWS_MEMORY_WAITS))
		nvs_memory_waits(&client->memory, &client->state, &client->connection);
	handle_reports(client);
	if (now >= nvs_lock_state_deadline(&client->state))
		feed_kind(client, NVS_EVENT_TIMER);
	if ((client->opens_with_door || nvs_memory_opens_now(&client->memory)) &&
	    client->state.lock == NVS_LOCK_HOLDING)
		open_gate(client);
	if (now >= memory_deadline(client))
		post_memory(client, now, false);
	if (now >= nvs_progress_deadline(client))
		nvs_post_progress(client);
	nvs_post_notices(client);
	nvs_post_shared(client);
	nvs_sleep_post(client);
	/*
	 * Last, and not where the writing failed: there a list of actions was being carried out,
	 * and another event would have come into the middle of it.
	 */
	if (client->connection.broken)
		feed_kind(client, NVS_EVENT_DISCONNECTED);
}

static void wait_for_something(struct nvs_client *client, struct pollfd *fds)
{
	uint64_t deadline = nvs_lock_state_deadline(&client->state), now = nvs_now_us(), left;
	uint64_t memory = memory_deadline(client), progress = nvs_progress_deadline(client);
	struct timespec timeout;

	if (memory < deadline)
		deadline = memory;
	if (progress < deadline)
		deadline = progress;
	fds[0] = (struct pollfd){ nvs_pending_number(&client->pending), POLLIN, 0 };
	fds[1] = (struct pollfd){ nvs_file_number(&client->connection.socket), POLLIN, 0 };
	if (nvs_connection_lost(&client->connection))
		deadline = now;
	else if (fds[0].fd < 0 && deadline > now + UNWOKEN_US)
		deadline = now + UNWOKEN_US;
	left = deadline > now ? deadline - now : 0;
	timeout = (struct timespec){ .tv_sec = (time_t)(left / 1000000),
				     .tv_nsec = (long)(left % 1000000) * 1000 };
	if (ppoll(fds, 2, deadline == NVS_LOCK_NEVER ? NULL : &timeout, NULL) <= 0)
		fds[0].revents = fds[1].revents = 0;
}

static void handle_files(struct nvs_client *client, const struct pollfd *fds)
{
	nvs_pending_woken(&client->pending, fds[0].revents);
	/*
	 * Those who asked before the scheduler's frame came are told first: a wish that is older
	 * than LOCK_OK is answered by it, and must not be taken for one that came after.
	 */
	handle_pending(client);
	if (fds[1].revents && client->connection.socket.number == fds[1].fd)
		while (read_frame(client))
			;
}

void *nvs_client_run(void *argument)
{
	struct nvs_client *client = argument;
	struct pollfd fds[2];

	nvs_mark_await();
	for (;;) {
		/* What the program has closed; before the bits, which it may have kept from us. */
		nvs_pending_mend(&client->pending);
		nvs_connection_lost(&client->connection);
		handle_pending(client);
		wait_for_something(client, fds);
		handle_files(client, fds);
	}
	return NULL;
}
