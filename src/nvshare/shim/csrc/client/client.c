/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients: one record and one thread for every device that the process uses. The thread alone
 * touches the record's state and connection; others, its worker among them, only add to `pending`,
 * which wakes it. So nothing here is locked, no thread of the program waits for the scheduler but
 * at the gate, and the scheduler is heard at any time: the thread makes no call that may wait.
 *
 * After fork the child closes what was inherited, which would keep the parent's connection open,
 * and nvs_client_start begins anew.
 */
#define _GNU_SOURCE
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "client/connection.h"
#include "client/lock_state.h"
#include "client/lock_words.h"
#include "client/messages.h"
#include "client/pending.h"
#include "client/worker.h"
#include "gate/device.h"
#include "gate/gate.h"
#include "process/clock.h"
#include "process/config.h"
#include "process/files.h"
#include "process/log.h"
#include "process/notices.h"
#include "process/thread.h"

#define FOOTPRINT_US 10000   /* the least time between two footprints */
#define PATIENCE_US 10000000 /* who waits for longer is told why */

enum {
	PENDING_WANT = 1,
	PENDING_FOOTPRINT = 2,
	PENDING_NOTICE = 4,
	PENDING_REPORT = 0x100 /* times a bit of nvs_report */
};

struct nvs_client {
	struct nvs_device *device; /* NULL: not started in this process */
	_Atomic bool running;	   /* the thread was created */
	struct nvs_pending pending;
	struct nvs_lock_state state;
	struct nvs_connection connection;
	struct nvs_worker worker;
	/* the newest that the scheduler knows; when the next may go */
	uint64_t footprint_sent, footprint_at;
	uint32_t notices_known; /* to the scheduler; a bit for each */
};

static struct nvs_client clients[NVS_MAX_DEVICES];

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
 * sent twice rather than never.
 */
static void post_register(struct nvs_client *client, const struct nvs_lock_action *action)
{
	struct nvs_frame frame;

	nvs_pending_take(&client->pending, PENDING_FOOTPRINT);
	nvs_message_register(&frame, client->device, &client->state, action);
	client->footprint_sent = frame.footprint_bytes;
	client->notices_known = 0;
	post(client, &frame);
}

static void post_footprint(struct nvs_client *client, uint64_t now)
{
	struct nvs_frame frame;

	nvs_pending_take(&client->pending, PENDING_FOOTPRINT);
	nvs_message_footprint(&frame, client->device);
	if (frame.footprint_bytes == client->footprint_sent)
		return;
	client->footprint_sent = frame.footprint_bytes;
	client->footprint_at = now + FOOTPRINT_US;
	post(client, &frame);
}

/* Feeds one frame; false: there is no whole one now, or no connection any more. */
static bool read_frame(struct nvs_client *client)
{
	struct nvs_lock_event event;

	switch (nvs_connection_receive(&client->connection)) {
	case NVS_RECEIVED_FRAME:
		event = nvs_lock_event_of(&client->connection.input);
		if (!feed(client, &event))
			feed_kind(client, NVS_EVENT_BAD_FRAME);
		return client->connection.socket >= 0;
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
	nvs_gate_set(client->device, NVS_GATE_OPEN);
	/*
	 * Whoever asked until now found the gate closed before this, and it is not closed again
	 * before this thread asks for it. A wish that stayed would bring a second request after the
	 * next release, and a turn that nobody needs.
	 */
	nvs_pending_take(&client->pending, PENDING_WANT);
}

static void carry_out(struct nvs_client *client, const struct nvs_lock_action *action)
{
	struct nvs_frame frame;

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
		post_footprint(client, nvs_now_us());
		/* fall through */
	case NVS_ACTION_SEND_LOCK_RELEASED:
	case NVS_ACTION_SEND_DRAIN_REPORT:
	case NVS_ACTION_SEND_ASK_REASON:
		nvs_message_for(&frame, action);
		post(client, &frame);
		break;
	case NVS_ACTION_OPEN_GATE:
		open_gate(client);
		break;
	case NVS_ACTION_DRAIN:
		nvs_worker_ask(&client->worker, NVS_JOB_DRAIN);
		break;
	case NVS_ACTION_FAIL_GATE:
		nvs_gate_set(client->device, NVS_GATE_FAILING);
		break;
	case NVS_ACTION_CLOSE_GATE:
		/* Nothing passed it, so there is nothing to drain. */
		nvs_gate_set(client->device, NVS_GATE_CLOSED);
		break;
	case NVS_ACTION_LOOK:
		nvs_worker_ask(&client->worker, NVS_JOB_LOOK);
		break;
	default:
		nvs_message_warn(action->kind, client->device, &client->state, &client->connection);
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
	nvs_device_tell_others(client->device,
			       state->waiters > 0 || state->lock == NVS_LOCK_DRAINING,
			       state->lock == NVS_LOCK_WAITING, nvs_now_ns());
	for (uint32_t i = 0; i < actions.count; i++)
		carry_out(client, &actions.list[i]);
	return true;
}

/* The thread */

static bool footprint_due(const struct nvs_client *client)
{
	return client->state.link == NVS_LINK_UP &&
	       nvs_pending_has(&client->pending, PENDING_FOOTPRINT);
}

static bool take_report(struct nvs_client *client, enum nvs_report report)
{
	return nvs_pending_take(&client->pending, PENDING_REPORT * report);
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
	if (take_report(client, NVS_REPORT_DRAINED))
		feed(client, &(struct nvs_lock_event){
				     .kind = NVS_EVENT_DRAINED,
				     .waiting = atomic_load(&client->device->gate.waiting) > 0 });
	if (take_report(client, NVS_REPORT_PUT_OFF))
		feed_kind(client, NVS_EVENT_PUT_OFF);
}

/*
 * All bits are looked at in every round, whatever woke the thread, so a wake-up that came early or
 * was swallowed costs nothing but a round.
 */
static void handle_pending(struct nvs_client *client)
{
	uint64_t now = nvs_now_us();
	struct nvs_frame frame;

	nvs_pending_take(&client->pending, PENDING_NOTICE);
	if (nvs_pending_take(&client->pending, PENDING_WANT))
		feed_kind(client, NVS_EVENT_WANTED);
	handle_reports(client);
	if (now >= nvs_lock_state_deadline(&client->state))
		feed_kind(client, NVS_EVENT_TIMER);
	if (footprint_due(client) && now >= client->footprint_at)
		post_footprint(client, now);
	while (nvs_message_notice(&frame, &client->state, &client->notices_known))
		post(client, &frame);
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
	struct timespec timeout;

	if (footprint_due(client) && client->footprint_at < deadline)
		deadline = client->footprint_at;
	left = deadline > now ? deadline - now : 0;
	timeout = (struct timespec){ .tv_sec = (time_t)(left / 1000000),
				     .tv_nsec = (long)(left % 1000000) * 1000 };
	fds[0] = (struct pollfd){ .fd = client->pending.wake, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = client->connection.socket, .events = POLLIN };
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
	if (fds[1].revents && client->connection.socket == fds[1].fd)
		while (read_frame(client))
			;
}

static void *run(void *argument)
{
	struct nvs_client *client = argument;
	struct pollfd fds[2];

	for (;;) {
		handle_pending(client);
		wait_for_something(client, fds);
		handle_files(client, fds);
	}
	return NULL;
}

/*
 * False: there is no thread; a later call may have more luck. Without one nobody would ever open
 * the gate, so every submission that waits tries again.
 */
static bool start_thread(struct nvs_client *client)
{
	if (atomic_exchange(&client->running, true))
		return true;
	if (client->pending.wake >= 0 && nvs_thread_create(run, client))
		return true;
	atomic_store(&client->running, false);
	return false;
}

static void do_without_thread(struct nvs_device *device)
{
	nvs_log("no thread can be created for device %d: it is used as if there were no scheduler",
		device->ordinal);
	if (nvs_config()->on_missing == NVS_ON_MISSING_RUN)
		nvs_gate_set(device, NVS_GATE_OPEN);
	else if (nvs_config()->on_missing == NVS_ON_MISSING_FAIL)
		nvs_gate_set(device, NVS_GATE_FAILING);
}

void nvs_clients_forked(void)
{
	for (struct nvs_client *client = clients; client < clients + NVS_MAX_DEVICES; client++) {
		if (client->device && client->connection.socket >= 0)
			close(client->connection.socket);
		if (client->device)
			nvs_pending_close(&client->pending);
		client->device = NULL;
	}
}

static void hear(struct nvs_worker *worker, enum nvs_report report)
{
	nvs_pending_add(&worker->device->client->pending, PENDING_REPORT * report);
}

static void want(struct nvs_device *device)
{
	nvs_pending_add(&device->client->pending, PENDING_WANT);
	start_thread(device->client);
}

static void footprint_changed(struct nvs_device *device)
{
	nvs_pending_add(&device->client->pending, PENDING_FOOTPRINT);
}

static void notice_said(void)
{
	for (struct nvs_client *client = clients; client < clients + NVS_MAX_DEVICES; client++)
		if (atomic_load(&client->running))
			nvs_pending_add(&client->pending, PENDING_NOTICE);
}

static const struct nvs_listener listener = {
	.wanted = want,
	.footprint_changed = footprint_changed,
};

void nvs_client_start(struct nvs_device *device)
{
	struct nvs_client *client = &clients[device->ordinal];
	int saved = errno;

	memset(client, 0, sizeof(*client));
	client->connection.socket = -1;
	client->worker.device = device;
	client->worker.tell = hear;
	nvs_files_lock();
	nvs_pending_open(&client->pending);
	client->device = device;
	nvs_files_unlock();
	nvs_lock_state_init(&client->state, nvs_config()->on_missing, (uint32_t)getpid(),
			    nvs_config()->debug ? 0 : PATIENCE_US, nvs_now_us());
	device->client = client;
	device->listener = &listener;
	nvs_notices_listen(notice_said);
	if (!start_thread(client))
		do_without_thread(device);
	errno = saved;
}
