/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock's state, pure: see lock_state.h. All transitions are in the table `rules`; what is not
 * in it is illegal.
 *
 *	lock:  IDLE -wanted-> WAITING -LOCK_OK-> HOLDING -DROP_LOCK or idle-> DRAINING
 *	       DRAINING -drained-> IDLE or WAITING; without a link HOLDING again, because the
 *	       lock could not be given back
 *	link:  DOWN -timer-> CONNECTING -connected-> REGISTERING -SCHED_ON-> UP; any loss: DOWN
 *
 * The two move independently: whatever happens to the link, a holder holds and a waiter waits, and
 * REGISTER tells the next scheduler so. The exception is a scheduler that is missing from the
 * start, or refuses: then on_missing decides.
 */
#include "client/lock_state.h"

#include <string.h>

#define FIRST_RETRY_US 50000u
#define LAST_RETRY_US 1000000u
#define REFUSED_RETRY_US 10000000u
#define LEAST_IDLE_US 1000u

#define UNUSED __attribute__((unused))
#define HANDLER(name)                                                                    \
	static bool name(struct nvs_lock_state *state UNUSED,                            \
			 const struct nvs_lock_event *event UNUSED, uint64_t now UNUSED, \
			 struct nvs_lock_actions *out UNUSED)

static void act(struct nvs_lock_actions *out, int kind)
{
	out->list[out->count++] = (struct nvs_lock_action){ .kind = kind };
}

static void act_release(struct nvs_lock_actions *out, uint64_t grant)
{
	out->list[out->count++] =
		(struct nvs_lock_action){ .kind = NVS_ACTION_SEND_LOCK_RELEASED, .grant = grant };
}

static bool watching(const struct nvs_lock_state *state)
{
	return state->lock == NVS_LOCK_HOLDING && state->link == NVS_LINK_UP && state->waiters > 0;
}

static void hold(struct nvs_lock_state *state, uint64_t grant, struct nvs_lock_actions *out)
{
	state->lock = NVS_LOCK_HOLDING;
	state->grant = grant;
	state->numbered = true;
	state->waiters = 0;
	act(out, NVS_ACTION_OPEN_GATE);
}

static void drain(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	state->lock = NVS_LOCK_DRAINING;
	state->wanted_again = false;
	act(out, NVS_ACTION_DRAIN);
}

static void warn_missing(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	if (!state->warned && !state->refused)
		act(out, NVS_ACTION_WARN_MISSING);
	state->warned = true;
}

/* Nobody to ask: what on_missing says happens to those who wait. A holder goes on in every case. */
static void do_without(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	if (!state->missing || state->failing)
		return;
	if (state->on_missing == NVS_ON_MISSING_FAIL && state->lock <= NVS_LOCK_WAITING) {
		warn_missing(state, out);
		state->failing = true;
		state->lock = NVS_LOCK_IDLE;
		act(out, NVS_ACTION_FAIL_GATE);
	} else if (state->lock == NVS_LOCK_WAITING) {
		warn_missing(state, out);
		if (state->on_missing == NVS_ON_MISSING_RUN)
			hold(state, 0, out);
	}
}

static uint64_t back_off(const struct nvs_lock_state *state)
{
	uint64_t delay = LAST_RETRY_US;
	uint32_t spread = (state->jitter + state->failures) * 2654435761u;

	if (state->refused)
		delay = REFUSED_RETRY_US;
	else if (state->failures < 5)
		delay = (uint64_t)FIRST_RETRY_US << state->failures;
	return delay - delay / 4 + (delay / 4 * (spread >> 16) >> 16);
}

static void link_down(struct nvs_lock_state *state, uint64_t now, struct nvs_lock_actions *out)
{
	state->link = NVS_LINK_DOWN;
	state->waiters = 0;
	state->retry_at = now + back_off(state);
	state->failures += state->failures < 5;
	state->missing = state->refused || !state->seen;
	do_without(state, out);
}

HANDLER(ignore)
{
	return true;
}

HANDLER(on_wanted)
{
	if (state->failing)
		return true;
	state->lock = NVS_LOCK_WAITING;
	if (state->link == NVS_LINK_UP)
		act(out, NVS_ACTION_SEND_REQ_LOCK);
	else
		do_without(state, out);
	return true;
}

HANDLER(on_wanted_draining)
{
	state->wanted_again = true;
	return true;
}

HANDLER(on_connected)
{
	static const int claims[] = { NVS_STATE_IDLE, NVS_STATE_WAITING, NVS_STATE_HOLDING };

	state->link = NVS_LINK_REGISTERING;
	state->registered_as = claims[state->lock];
	out->list[out->count++] = (struct nvs_lock_action){
		.kind = NVS_ACTION_SEND_REGISTER,
		.state = state->registered_as,
		.grant = state->lock == NVS_LOCK_HOLDING ? state->grant : 0,
	};
	return true;
}

HANDLER(on_connect_failed)
{
	link_down(state, now, out);
	return true;
}

HANDLER(on_disconnected)
{
	act(out, NVS_ACTION_DISCONNECT);
	if (state->link == NVS_LINK_UP) {
		act(out, NVS_ACTION_WARN_LOST);
		state->failures = 0;
	}
	link_down(state, now, out);
	return true;
}

HANDLER(on_bad_frame)
{
	act(out, NVS_ACTION_DISCONNECT);
	if (!state->bad_told)
		act(out, NVS_ACTION_WARN_BAD_FRAME);
	state->bad_told = true;
	link_down(state, now, out);
	return true;
}

HANDLER(on_refused)
{
	act(out, NVS_ACTION_DISCONNECT);
	if (!state->refused)
		act(out, NVS_ACTION_WARN_REFUSED);
	state->refused = true;
	link_down(state, now, out);
	return true;
}

HANDLER(on_sched_on)
{
	state->link = NVS_LINK_UP;
	state->epoch = event->epoch;
	state->seen = true;
	state->missing = state->warned = state->refused = false;
	state->numbered = false;
	if (state->failing)
		act(out, NVS_ACTION_CLOSE_GATE);
	state->failing = false;
	if (state->lock == NVS_LOCK_WAITING && state->registered_as != NVS_STATE_WAITING)
		act(out, NVS_ACTION_SEND_REQ_LOCK);
	return true;
}

HANDLER(on_lock_ok)
{
	hold(state, event->grant, out);
	return true;
}

/* A scheduler that has just registered a holder may give its grant a number of its own, once. */
HANDLER(on_lock_ok_holding)
{
	if (state->numbered)
		return false;
	state->grant = event->grant;
	state->numbered = true;
	return true;
}

HANDLER(on_drop_lock)
{
	if (state->numbered && event->grant != state->grant)
		return true;
	state->grant = event->grant;
	state->numbered = true;
	drain(state, out);
	return true;
}

HANDLER(on_waiters)
{
	bool watched = watching(state);

	state->waiters = event->waiters;
	state->idle_microseconds =
		event->idle_microseconds < LEAST_IDLE_US ? LEAST_IDLE_US : event->idle_microseconds;
	if (watching(state) && !watched) {
		state->completed = false;
		state->look_at = now;
	}
	return true;
}

HANDLER(on_drained)
{
	if (state->link == NVS_LINK_DOWN) {
		hold(state, state->grant, out);
		return true;
	}
	state->lock = event->waiting || state->wanted_again ? NVS_LOCK_WAITING : NVS_LOCK_IDLE;
	act_release(out, state->grant);
	if (state->lock == NVS_LOCK_WAITING)
		act(out, NVS_ACTION_SEND_REQ_LOCK);
	state->grant = 0;
	state->waiters = 0;
	return true;
}

/* Idle: everything had completed at the last look, and nothing came since. */
HANDLER(on_looked)
{
	bool idle = state->completed && event->submissions == state->submissions;

	if (!watching(state))
		return true;
	if (idle) {
		drain(state, out);
		return true;
	}
	state->completed = event->completed;
	state->submissions = event->submissions;
	state->look_at = now + state->idle_microseconds;
	return true;
}

HANDLER(on_timer)
{
	if (now < nvs_lock_state_deadline(state))
		return true;
	if (state->link == NVS_LINK_DOWN) {
		state->link = NVS_LINK_CONNECTING;
		act(out, NVS_ACTION_CONNECT);
	} else {
		state->look_at = NVS_LOCK_NEVER;
		act(out, NVS_ACTION_LOOK);
	}
	return true;
}

#define DOWN (1 << NVS_LINK_DOWN)
#define CONNECTING (1 << NVS_LINK_CONNECTING)
#define REGISTERING (1 << NVS_LINK_REGISTERING)
#define UP (1 << NVS_LINK_UP)
#define ANY_LINK (DOWN | CONNECTING | REGISTERING | UP)
#define IDLE (1 << NVS_LOCK_IDLE)
#define WAITING (1 << NVS_LOCK_WAITING)
#define HOLDING (1 << NVS_LOCK_HOLDING)
#define DRAINING (1 << NVS_LOCK_DRAINING)
#define STEADY (IDLE | WAITING | HOLDING)
#define ANY_LOCK (STEADY | DRAINING)

/* No connection is made while draining: there is no claim that would be true for long. */
static const struct {
	int event, links, locks;
	bool (*handler)(struct nvs_lock_state *state, const struct nvs_lock_event *event,
			uint64_t now, struct nvs_lock_actions *out);
} rules[] = {
	{ NVS_EVENT_WANTED, ANY_LINK, IDLE, on_wanted },
	{ NVS_EVENT_WANTED, ANY_LINK, WAITING | HOLDING, ignore },
	{ NVS_EVENT_WANTED, DOWN | UP, DRAINING, on_wanted_draining },
	{ NVS_EVENT_CONNECTED, CONNECTING, STEADY, on_connected },
	{ NVS_EVENT_CONNECT_FAILED, CONNECTING, STEADY, on_connect_failed },
	{ NVS_EVENT_DISCONNECTED, REGISTERING, STEADY, on_disconnected },
	{ NVS_EVENT_DISCONNECTED, UP, ANY_LOCK, on_disconnected },
	{ NVS_EVENT_BAD_FRAME, REGISTERING, STEADY, on_bad_frame },
	{ NVS_EVENT_BAD_FRAME, UP, ANY_LOCK, on_bad_frame },
	{ NVS_EVENT_SCHED_ON, REGISTERING, STEADY, on_sched_on },
	{ NVS_EVENT_REFUSED, REGISTERING, STEADY, on_refused },
	{ NVS_EVENT_LOCK_OK, UP, IDLE | WAITING, on_lock_ok },
	{ NVS_EVENT_LOCK_OK, UP, HOLDING, on_lock_ok_holding },
	{ NVS_EVENT_DROP_LOCK, UP, HOLDING, on_drop_lock },
	/* crossed with LOCK_RELEASED */
	{ NVS_EVENT_DROP_LOCK, UP, IDLE | WAITING | DRAINING, ignore },
	{ NVS_EVENT_WAITERS, UP, HOLDING, on_waiters },
	/* crossed with LOCK_RELEASED */
	{ NVS_EVENT_WAITERS, UP, IDLE | WAITING | DRAINING, ignore },
	{ NVS_EVENT_DRAINED, DOWN | UP, DRAINING, on_drained },
	{ NVS_EVENT_LOOKED, ANY_LINK, ANY_LOCK, on_looked },
	{ NVS_EVENT_TIMER, ANY_LINK, ANY_LOCK, on_timer },
};

bool nvs_lock_state_handle(struct nvs_lock_state *state, const struct nvs_lock_event *event,
			   uint64_t now, struct nvs_lock_actions *out)
{
	out->count = 0;
	for (unsigned int i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].event == event->kind && rules[i].links & 1 << state->link &&
		    rules[i].locks & 1 << state->lock)
			return rules[i].handler(state, event, now, out);
	return false;
}

uint64_t nvs_lock_state_deadline(const struct nvs_lock_state *state)
{
	if (state->link == NVS_LINK_DOWN && state->lock != NVS_LOCK_DRAINING)
		return state->retry_at;
	return watching(state) ? state->look_at : NVS_LOCK_NEVER;
}

void nvs_lock_state_init(struct nvs_lock_state *state, int on_missing, uint32_t pid, uint64_t now)
{
	memset(state, 0, sizeof(*state));
	state->on_missing = on_missing;
	state->jitter = pid;
	state->retry_at = now;
	state->look_at = NVS_LOCK_NEVER;
}

struct nvs_lock_event nvs_lock_event_of(const struct nvs_frame *frame)
{
	static const int kinds[] = {
		[NVS_SCHED_ON] = NVS_EVENT_SCHED_ON,   [NVS_LOCK_OK] = NVS_EVENT_LOCK_OK,
		[NVS_DROP_LOCK] = NVS_EVENT_DROP_LOCK, [NVS_WAITERS] = NVS_EVENT_WAITERS,
		[NVS_REFUSED] = NVS_EVENT_REFUSED,
	};
	struct nvs_lock_event event = {
		.kind = NVS_EVENT_BAD_FRAME,
		.waiters = frame->waiters,
		.idle_microseconds = frame->idle_microseconds,
		.epoch = frame->epoch,
		.grant = frame->grant,
	};

	if (frame->magic != NVS_WIRE_MAGIC || frame->version != NVS_WIRE_VERSION)
		return event;
	if (frame->type < sizeof(kinds) / sizeof(kinds[0]) && kinds[frame->type])
		event.kind = kinds[frame->type];
	return event;
}

const char *nvs_link_name(int link)
{
	static const char *const names[] = { "down", "connecting", "registering", "up" };

	return names[link];
}

const char *nvs_lock_name(int lock)
{
	static const char *const names[] = { "idle", "waiting", "holding", "draining" };

	return names[lock];
}

const char *nvs_lock_event_name(int kind)
{
	static const char *const names[NVS_EVENT_KINDS] = {
		"wanted",   "connected", "connect-failed", "disconnected", "bad-frame",
		"SCHED_ON", "LOCK_OK",	 "DROP_LOCK",	   "WAITERS",	   "REFUSED",
		"drained",  "looked",	 "timer",
	};

	return names[kind];
}
