/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection's half of the lock's state, pure: what its events change, and when it is tried
 * again. Owns nothing.
 */
#include "client/lock_link.h"

#define FIRST_RETRY_US 50000u
#define LAST_RETRY_US 1000000u
#define REFUSED_RETRY_US 10000000u

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
