/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that several rules of the lock's state take. Pure; owns nothing.
 */
#include "client/lock_rules.h"

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
