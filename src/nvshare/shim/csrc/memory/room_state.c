/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room's state, pure: see room_state.h. Owns nothing.
 *
 * What the scheduler charges is never less than what is resident here. It charges the highest
 * allotment that this side may still go by, which it knows by the order in RESIDENT: so that is
 * raised only when the allotment really counts.
 */
#include "memory/room_state.h"

#include <string.h>

#define REFUSED_US 1000000u /* before a holder asks again for what it has already */

bool nvs_room_state_asked(const struct nvs_room_state *state)
{
	return state->limited && state->link == NVS_ROOM_LINK_UP;
}

bool nvs_room_state_lost(const struct nvs_room_state *state)
{
	return state->link == NVS_ROOM_LINK_DOWN;
}

/*
 * The most that may be resident now. A holder without a scheduler must go on, and asks the driver.
 */
static uint64_t most(const struct nvs_room_state *state)
{
	bool alone = !state->limited || (state->held && state->link != NVS_ROOM_LINK_UP);

	if (state->lost)
		return 0;
	return alone ? UINT64_MAX : state->allotted_bytes;
}

/* A lower allotment that waits counts as soon as it can. */
static void settle(struct nvs_room_state *state)
{
	if (!state->next_order ||
	    (state->held && state->resident_bytes > state->next_allotted_bytes))
		return;
	state->order = state->next_order;
	state->allotted_bytes = state->next_allotted_bytes;
	state->next_order = 0;
	state->urgent = true;
}

/* Fixed memory that was given back does not count any more. */
static void keep_none(struct nvs_room_state *state)
{
	state->fixed_most_bytes = state->fixed_before_bytes = state->fixed_bytes;
}

void nvs_room_state_init(struct nvs_room_state *state)
{
	memset(state, 0, sizeof(*state));
}

void nvs_room_state_link(struct nvs_room_state *state, int link)
{
	state->link = link;
	state->answered = state->request;
	state->grow_at = 0;
	if (link == NVS_ROOM_LINK_UNAWARE)
		state->limited = false;
	if (link != NVS_ROOM_LINK_UP)
		return;
	/*
	 * Until this scheduler has said something it charges the footprint, and what the last one
	 * said counts.
	 */
	if (!state->limited)
		state->allotted_bytes = state->resident_bytes;
	if (state->allotted_bytes > state->footprint_bytes)
		state->allotted_bytes = state->footprint_bytes;
	state->limited = true;
	state->order = state->next_order = state->heard_order = 0;
	state->admitted_bytes = state->footprint_bytes;
	state->fixed_admitted_bytes = state->fixed_bytes;
	keep_none(state);
	state->urgent = true;
}

/* The newest GROW is granted. */
static void answer(struct nvs_room_state *state)
{
	state->answered = state->request;
	state->fixed_admitted_bytes = state->request_fixed_bytes;
	if (state->request_kind == NVS_ROOM_CONTEXT)
		state->context_admitted = true;
}

bool nvs_room_state_allot(struct nvs_room_state *state, const struct nvs_frame *frame)
{
	const struct nvs_wire_memory *memory = &frame->memory;

	if (!nvs_room_state_asked(state) || memory->order <= state->heard_order)
		return false;
	state->heard_order = state->next_order = memory->order;
	state->next_allotted_bytes = memory->allotted_bytes;
	if (frame->type == NVS_ALLOT) {
		state->admitted_bytes = memory->admitted_bytes;
		state->capacity_bytes = memory->capacity_bytes;
		if (frame->request == state->request && state->answered != state->request)
			answer(state);
	}
	if (memory->allotted_bytes < state->resident_bytes)
		state->urgent = true;
	/* Others want room, or to know what there is. */
	if (frame->type == NVS_EVICT)
		keep_none(state);
	settle(state);
	return true;
}

bool nvs_room_state_refuse(struct nvs_room_state *state, uint32_t request)
{
	if (request != state->request || state->answered == state->request)
		return false;
	state->answered = state->request;
	if (!state->wanting) {
		state->grow_at = state->say_at + REFUSED_US;
		return false;
	}
	state->wanting = false;
	return true;
}

static int try_movable(const struct nvs_room_state *state, uint64_t bytes)
{
	uint64_t footprint = state->footprint_bytes, resident = state->resident_bytes;
	bool admitted =
		footprint <= state->admitted_bytes && bytes <= state->admitted_bytes - footprint;

	if (!state->limited)
		return NVS_ROOM_IN;
	if (!admitted)
		return nvs_room_state_asked(state) ? NVS_ROOM_WAIT : NVS_ROOM_IN;
	if (resident <= most(state) && bytes <= most(state) - resident)
		return NVS_ROOM_IN;
	return state->held ? NVS_ROOM_WAIT : NVS_ROOM_OUT;
}

int nvs_room_state_try(const struct nvs_room_state *state, int kind, uint64_t bytes)
{
	/* What comes of a context the driver says. */
	if (state->lost)
		return kind == NVS_ROOM_CONTEXT ? NVS_ROOM_IN : NVS_ROOM_REFUSED;
	if (kind == NVS_ROOM_MOVABLE)
		return try_movable(state, bytes);
	if (kind == NVS_ROOM_CONTEXT && state->link == NVS_ROOM_LINK_NEW)
		return NVS_ROOM_WAIT;
	if (!nvs_room_state_asked(state))
		return NVS_ROOM_IN;
	if (kind == NVS_ROOM_CONTEXT)
		return state->context_admitted ? NVS_ROOM_IN : NVS_ROOM_WAIT;
	return state->fixed_bytes <= state->fixed_admitted_bytes &&
			       bytes <= state->fixed_admitted_bytes - state->fixed_bytes
		       ? NVS_ROOM_IN
		       : NVS_ROOM_WAIT;
}

int nvs_room_state_try_again(const struct nvs_room_state *state, int kind, uint64_t bytes)
{
	return nvs_room_state_lost(state) && !state->lost ? NVS_ROOM_WAIT
							  : nvs_room_state_try(state, kind, bytes);
}

static void count_fixed(struct nvs_room_state *state, int64_t change)
{
	state->fixed_bytes += (uint64_t)change;
	if (state->fixed_most_bytes < state->fixed_bytes)
		state->fixed_most_bytes = state->fixed_bytes;
}

void nvs_room_state_take(struct nvs_room_state *state, int kind, uint64_t bytes, int room)
{
	if (kind == NVS_ROOM_FIXED)
		count_fixed(state, (int64_t)bytes);
	if (kind != NVS_ROOM_MOVABLE)
		return;
	state->footprint_bytes += bytes;
	if (room == NVS_ROOM_IN)
		state->resident_bytes += bytes;
	/* Of the driver alone: it need not leave when there is a scheduler again. */
	if (state->held && !nvs_room_state_asked(state) &&
	    state->allotted_bytes < state->resident_bytes)
		state->allotted_bytes = state->resident_bytes;
}

void nvs_room_state_take_back(struct nvs_room_state *state, int kind, uint64_t bytes)
{
	if (kind == NVS_ROOM_MOVABLE)
		nvs_room_state_give(state, bytes, bytes);
	else if (kind == NVS_ROOM_FIXED)
		nvs_room_state_count_fixed(state, -(int64_t)bytes);
	else
		state->context_admitted = false;
}

void nvs_room_state_want(struct nvs_room_state *state, int kind, uint64_t bytes)
{
	/* What was asked for somebody else is not this one's answer. */
	if (!state->wanting || state->wanted_kind != kind || state->wanted_bytes != bytes)
		state->answered = state->request;
	state->wanting = true;
	state->wanted_kind = kind;
	state->wanted_bytes = bytes;
}

void nvs_room_state_want_none(struct nvs_room_state *state)
{
	state->wanting = false;
}

void nvs_room_state_give(struct nvs_room_state *state, uint64_t bytes, uint64_t resident)
{
	state->footprint_bytes -= bytes;
	state->resident_bytes -= resident;
	settle(state);
}

static uint64_t forgo_most(const struct nvs_room_state *state, uint64_t usable)
{
	if (state->limited)
		return state->admitted_bytes;
	return usable > state->fixed_bytes ? usable - state->fixed_bytes : 0;
}

bool nvs_room_state_forgo(struct nvs_room_state *state, uint64_t bytes, uint64_t usable)
{
	if (state->held || state->footprint_bytes > forgo_most(state, usable))
		return false;
	state->resident_bytes -= bytes;
	state->urgent = true;
	return true;
}

void nvs_room_state_count_fixed(struct nvs_room_state *state, int64_t change)
{
	count_fixed(state, change);
	if (state->fixed_admitted_bytes < state->fixed_bytes)
		state->fixed_admitted_bytes = state->fixed_bytes;
}

/*
 * What the scheduler gave for the one is used for the other, until it has heard of it: together
 * they stay what they were.
 */
void nvs_room_state_pin(struct nvs_room_state *state, int64_t bytes)
{
	uint64_t less = (uint64_t)bytes;

	state->footprint_bytes -= less;
	state->resident_bytes -= less;
	if (bytes < 0 || state->allotted_bytes >= less)
		state->allotted_bytes -= less;
	if (bytes < 0 || state->admitted_bytes >= less)
		state->admitted_bytes -= less;
	nvs_room_state_count_fixed(state, bytes);
	if (bytes < 0)
		keep_none(state);
	state->urgent = true;
	settle(state);
}

void nvs_room_state_lack(struct nvs_room_state *state, uint64_t bytes)
{
	state->lacking_bytes = bytes;
	state->urgent = true;
}

void nvs_room_state_hold(struct nvs_room_state *state)
{
	state->held = true;
}

void nvs_room_state_release(struct nvs_room_state *state)
{
	state->held = false;
	keep_none(state);
	settle(state);
}

bool nvs_room_state_ready(const struct nvs_room_state *state)
{
	return state->held && state->resident_bytes == state->footprint_bytes &&
	       !state->entering_bytes && !state->leaving_bytes;
}

int nvs_room_state_next(const struct nvs_room_state *state, uint64_t *bytes)
{
	uint64_t staying = state->resident_bytes - state->leaving_bytes, limit = most(state);

	if (!state->held && staying > limit) {
		*bytes = staying - limit;
		return NVS_ROOM_BRING_OUT;
	}
	*bytes = state->footprint_bytes - state->resident_bytes;
	if (!*bytes || state->leaving_bytes || state->resident_bytes >= limit)
		return NVS_ROOM_NOTHING;
	if (*bytes > limit - state->resident_bytes)
		*bytes = limit - state->resident_bytes;
	return NVS_ROOM_BRING_IN;
}

bool nvs_room_state_leave(struct nvs_room_state *state, uint64_t bytes)
{
	uint64_t wanted;

	if (nvs_room_state_next(state, &wanted) != NVS_ROOM_BRING_OUT)
		return false;
	state->leaving_bytes += bytes;
	return true;
}

void nvs_room_state_left(struct nvs_room_state *state, uint64_t bytes, bool gone)
{
	state->leaving_bytes -= bytes;
	if (!gone)
		return;
	state->resident_bytes -= bytes;
	state->moved = true;
	settle(state);
}

bool nvs_room_state_enter(struct nvs_room_state *state, uint64_t bytes)
{
	uint64_t allowed;

	if (nvs_room_state_next(state, &allowed) != NVS_ROOM_BRING_IN || bytes > allowed)
		return false;
	state->resident_bytes += bytes;
	state->entering_bytes += bytes;
	return true;
}

void nvs_room_state_entered(struct nvs_room_state *state, uint64_t bytes, bool in)
{
	state->entering_bytes -= bytes;
	if (in)
		state->moved = true;
	else
		state->resident_bytes -= bytes;
	settle(state);
}

/* Host memory */

static uint64_t larger(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

void nvs_room_state_set_arena(struct nvs_room_state *state, uint64_t received, uint64_t offered,
			      uint64_t returned)
{
	state->received_bytes = larger(state->received_bytes, received);
	state->offered_bytes = larger(state->offered_bytes, offered);
	state->returned_bytes = larger(state->returned_bytes, returned);
}

uint64_t nvs_room_state_unneeded(const struct nvs_room_state *state)
{
	uint64_t arena_bytes = state->received_bytes - state->returned_bytes;
	/* What was admitted may have been taken back after it was used. */
	uint64_t needed_bytes = larger(state->admitted_bytes, state->footprint_bytes);

	return arena_bytes > needed_bytes ? arena_bytes - needed_bytes : 0;
}

uint64_t nvs_room_state_surplus(const struct nvs_room_state *state, uint64_t now)
{
	/* What runs stands in the way (surplus.c). */
	bool is_due = state->surplus_at && now >= state->surplus_at && !state->held;

	return is_due ? nvs_room_state_unneeded(state) : 0;
}

void nvs_room_state_keep_surplus(struct nvs_room_state *state)
{
	state->surplus_at = 0;
}
