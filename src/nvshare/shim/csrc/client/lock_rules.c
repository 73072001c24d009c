/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that several rules of the lock's state take, and the rules of the connection. Pure; owns
 * nothing.
 */
#include "client/lock_rules.h"

#define FIRST_RETRY_US 50000u
#define LAST_RETRY_US 1000000u
#define REFUSED_RETRY_US 10000000u

void nvs_lock_act(struct nvs_lock_actions *out, int kind)
{
	out->list[out->count++] = (struct nvs_lock_action){ .kind = kind };
}

static void act_release(struct nvs_lock_actions *out, uint64_t grant)
{
	out->list[out->count++] =
		(struct nvs_lock_action){ .kind = NVS_ACTION_SEND_LOCK_RELEASED, .grant = grant };
}

void nvs_lock_report(struct nvs_lock_state *state, int drain, struct nvs_lock_actions *out)
{
	state->report = drain;
	if (state->report && state->link == NVS_LINK_UP && state->level >= 1)
		out->list[out->count++] = (struct nvs_lock_action){
			.kind = NVS_ACTION_SEND_DRAIN_REPORT, .state = drain, .grant = state->grant
		};
}

void nvs_lock_drain(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	state->lock = NVS_LOCK_DRAINING;
	state->drained = state->wanted_again = state->looking = false;
	state->report = 0;
	state->drain_at = NVS_LOCK_NEVER;
	nvs_lock_act(out, NVS_ACTION_DRAIN);
}

/*
 * Of a gang the scheduler asks all together. Until then the gate stays open: the driver answers
 * what is asked.
 */
void nvs_lock_lose(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	state->lost = true;
	if (state->lock == NVS_LOCK_HOLDING && !state->in_gang)
		nvs_lock_drain(state, out);
	if (state->lock >= NVS_LOCK_HOLDING)
		return;
	state->lock = NVS_LOCK_IDLE;
	nvs_lock_wait_ends(state);
	nvs_lock_act(out, NVS_ACTION_LOSE_GATE);
}

void nvs_lock_hold(struct nvs_lock_state *state, uint64_t grant, struct nvs_lock_actions *out)
{
	state->grant = grant;
	if (state->lost) {
		nvs_lock_release(state, false, 0, out);
		return;
	}
	state->lock = NVS_LOCK_HOLDING;
	state->numbered = true;
	state->waiters = 0;
	state->gives_way = false;
	state->report = 0;
	state->drain_at = NVS_LOCK_NEVER;
	nvs_lock_wait_ends(state);
	nvs_lock_act(out, NVS_ACTION_OPEN_GATE);
}

void nvs_lock_release(struct nvs_lock_state *state, bool waiting, uint64_t now,
		      struct nvs_lock_actions *out)
{
	waiting &= !state->lost;
	state->lock = waiting ? NVS_LOCK_WAITING : NVS_LOCK_IDLE;
	act_release(out, state->grant);
	if (state->lost)
		nvs_lock_act(out, NVS_ACTION_LOSE_GATE);
	nvs_lock_wait_ends(state);
	if (waiting) {
		nvs_lock_act(out, NVS_ACTION_SEND_REQ_LOCK);
		nvs_lock_wait_begins(state, now);
	}
	state->grant = 0;
	state->waiters = 0;
	state->gives_way = false;
	state->report = 0;
	state->put_off = 0;
}

void nvs_lock_wait_begins(struct nvs_lock_state *state, uint64_t now)
{
	if (state->waiting_since != NVS_LOCK_NEVER)
		return;
	state->waiting_since = now;
	state->tell_at = now + state->patience;
}

void nvs_lock_wait_ends(struct nvs_lock_state *state)
{
	state->waiting_since = state->tell_at = NVS_LOCK_NEVER;
	state->asked = false;
}

static void warn_missing(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	if (!state->warned && !state->refused)
		nvs_lock_act(out, NVS_ACTION_WARN_MISSING);
	state->warned = true;
}

void nvs_lock_do_without(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	if (!state->missing || state->failing || state->lost)
		return;
	if (state->on_missing == NVS_ON_MISSING_FAIL && state->lock <= NVS_LOCK_WAITING) {
		warn_missing(state, out);
		state->failing = true;
		state->lock = NVS_LOCK_IDLE;
		nvs_lock_wait_ends(state);
		nvs_lock_act(out, NVS_ACTION_FAIL_GATE);
	} else if (state->lock == NVS_LOCK_WAITING) {
		warn_missing(state, out);
		if (state->on_missing == NVS_ON_MISSING_RUN)
			nvs_lock_hold(state, 0, out);
	}
}

/* The connection's half: what its events change, and when it is tried again. */

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
	state->gives_way = false;
	state->retry_at = now + back_off(state);
	state->failures += state->failures < 5;
	state->missing = state->refused || !state->seen;
	/* The next scheduler asks for the lock anew, when it wants it. */
	state->drain_at = NVS_LOCK_NEVER;
	if (state->asked)
		state->tell_at = now + state->patience;
	state->asked = false;
	if (state->lock == NVS_LOCK_HOLDING)
		state->report = 0;
	if (state->lock == NVS_LOCK_DRAINING && state->drained)
		nvs_lock_hold(state, state->grant, out);
	nvs_lock_do_without(state, out);
}

void nvs_lock_reconnect(struct nvs_lock_state *state, uint64_t now, struct nvs_lock_actions *out)
{
	nvs_lock_act(out, NVS_ACTION_DISCONNECT);
	state->failures = 0;
	link_down(state, now, out);
}

NVS_LOCK_RULE(nvs_lock_on_connected)
{
	static const int claims[] = { NVS_STATE_IDLE, NVS_STATE_WAITING, NVS_STATE_HOLDING,
				      NVS_STATE_DRAINING };

	state->link = NVS_LINK_REGISTERING;
	state->registered_as = claims[state->lock];
	out->list[out->count++] = (struct nvs_lock_action){
		.kind = NVS_ACTION_SEND_REGISTER,
		.state = state->registered_as,
		.grant = state->lock >= NVS_LOCK_HOLDING ? state->grant : 0,
	};
	return true;
}

NVS_LOCK_RULE(nvs_lock_on_connect_failed)
{
	link_down(state, now, out);
	return true;
}

NVS_LOCK_RULE(nvs_lock_on_disconnected)
{
	nvs_lock_act(out, NVS_ACTION_DISCONNECT);
	if (state->link == NVS_LINK_UP) {
		nvs_lock_act(out, NVS_ACTION_WARN_LOST);
		state->failures = 0;
	}
	link_down(state, now, out);
	return true;
}

NVS_LOCK_RULE(nvs_lock_on_bad_frame)
{
	nvs_lock_act(out, NVS_ACTION_DISCONNECT);
	if (!state->bad_told)
		nvs_lock_act(out, NVS_ACTION_WARN_BAD_FRAME);
	state->bad_told = true;
	link_down(state, now, out);
	return true;
}

NVS_LOCK_RULE(nvs_lock_on_refused)
{
	nvs_lock_act(out, NVS_ACTION_DISCONNECT);
	if (!state->refused)
		nvs_lock_act(out, NVS_ACTION_WARN_REFUSED);
	state->refused = true;
	state->lost |= event->final;
	link_down(state, now, out);
	if (event->final) {
		state->sent_away = true;
		state->in_gang = false;
		state->retry_at = NVS_LOCK_NEVER;
		nvs_lock_lose(state, out);
	}
	return true;
}

NVS_LOCK_RULE(nvs_lock_on_sched_on)
{
	state->link = NVS_LINK_UP;
	state->epoch = event->epoch;
	state->level = event->level;
	state->seen = true;
	state->missing = state->warned = state->refused = false;
	state->numbered = false;
	state->in_gang = false;
	if (state->failing && !state->lost)
		nvs_lock_act(out, NVS_ACTION_CLOSE_GATE);
	state->failing = false;
	if (state->lock == NVS_LOCK_WAITING && state->registered_as != NVS_STATE_WAITING)
		nvs_lock_act(out, NVS_ACTION_SEND_REQ_LOCK);
	if (state->lock == NVS_LOCK_DRAINING && state->drained)
		nvs_lock_release(state, state->wanted_again, now, out);
	else if (state->lock == NVS_LOCK_HOLDING && state->lost)
		nvs_lock_drain(state, out);
	else
		nvs_lock_report(state, state->report, out);
	return true;
}
