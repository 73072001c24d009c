/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the room has to say to the scheduler, and when; pure: see room_state.h. Owns nothing.
 */
#include "memory/room_state.h"

#define SAY_US 10000u /* the least time between two RESIDENT that are not urgent */
/*
 * The same while memory moves. What has no contents moves without a copy, thousands of chunks in a
 * moment: the scheduler could not read as many.
 */
#define MOVED_US 1000u
#define GROW_US 10000u /* before the same is asked for again that was granted, and did not do */
/*
 * Fixed memory that is given back counts for so long, at most for twice. A holder takes the same
 * again in its next step, and would ask for each allocation of it anew.
 */
#define KEEP_US 10000u
#define HOLDER_KEEP_US 1000000u
#define SURPLUS_US 10000000u
#define LEAST_SLACK_BYTES (64ull << 20)

static uint64_t earlier(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

static uint64_t slack(uint64_t footprint)
{
	return footprint / 16 > LEAST_SLACK_BYTES ? footprint / 16 : LEAST_SLACK_BYTES;
}

static uint64_t grow_footprint(const struct nvs_room_state *state)
{
	bool movable = state->wanting && state->wanted_kind == NVS_ROOM_MOVABLE;

	return state->footprint_bytes + (movable ? state->wanted_bytes : 0);
}

/* Who wants memory of another kind must not be refused for what is only kept. */
static bool keeps_none(const struct nvs_room_state *state)
{
	return state->wanting && state->wanted_kind != NVS_ROOM_FIXED;
}

/* The fixed memory that the scheduler is to count. */
static uint64_t kept(const struct nvs_room_state *state)
{
	if (keeps_none(state))
		return state->fixed_bytes;
	return state->fixed_most_bytes > state->fixed_before_bytes ? state->fixed_most_bytes
								   : state->fixed_before_bytes;
}

static uint64_t keep_us(const struct nvs_room_state *state)
{
	return state->held ? HOLDER_KEEP_US : KEEP_US;
}

/* What was kept for long enough is not any more. */
static void keep(struct nvs_room_state *state, uint64_t now)
{
	if (now - state->kept_from < keep_us(state))
		return;
	state->fixed_before_bytes = state->fixed_most_bytes;
	state->fixed_most_bytes = state->fixed_bytes;
	state->kept_from = now;
}

static uint64_t keep_deadline(const struct nvs_room_state *state)
{
	return kept(state) > state->fixed_bytes ? state->kept_from + keep_us(state)
						: NVS_ROOM_NEVER;
}

static uint64_t grow_fixed(const struct nvs_room_state *state)
{
	bool fixed = state->wanting && state->wanted_kind == NVS_ROOM_FIXED;

	return fixed ? state->fixed_bytes + state->wanted_bytes : kept(state);
}

/* The last GROW said all that the next one would. */
static bool same(const struct nvs_room_state *state)
{
	return state->request && state->request_held == state->held &&
	       state->request_kind == (state->wanting ? state->wanted_kind : NVS_ROOM_MOVABLE) &&
	       state->request_footprint_bytes == grow_footprint(state) &&
	       state->request_fixed_bytes == grow_fixed(state);
}

/* When GROW is to be sent: who waits is asked for, and a holder of which not all may be here. */
static uint64_t grow_deadline(const struct nvs_room_state *state)
{
	bool short_of = state->held && state->allotted_bytes < state->footprint_bytes;

	if (!nvs_room_state_asked(state) || (!state->wanting && !short_of))
		return NVS_ROOM_NEVER;
	if (!same(state))
		return state->wanting ? 0 : state->grow_at;
	return state->answered == state->request ? state->grow_at : NVS_ROOM_NEVER;
}

/*
 * Of what is freed while the mover has just brought it out, or has room for it, the footprint is
 * told before the mover says what has become of it. No more than the footprint is ever here.
 */
static uint64_t resident(const struct nvs_room_state *state)
{
	return state->resident_bytes < state->footprint_bytes ? state->resident_bytes
							      : state->footprint_bytes;
}

static bool news(const struct nvs_room_state *state)
{
	return state->said_order != state->order ||
	       state->said_footprint_bytes != state->footprint_bytes ||
	       state->said_resident_bytes != resident(state) ||
	       state->said_fixed_bytes != kept(state) ||
	       state->said_received_bytes != state->received_bytes ||
	       state->said_offered_bytes != state->offered_bytes ||
	       state->said_returned_bytes != state->returned_bytes ||
	       state->said_admitted_bytes != state->admitted_bytes;
}

static uint64_t resident_deadline(const struct nvs_room_state *state)
{
	if (!nvs_room_state_asked(state))
		return NVS_ROOM_NEVER;
	if (state->urgent || (keeps_none(state) && state->said_fixed_bytes > state->fixed_bytes))
		return 0;
	if (state->moved) /* and before more is asked for */
		return earlier(state->moved_at, grow_deadline(state));
	return news(state) ? state->say_at : NVS_ROOM_NEVER;
}

uint64_t nvs_room_state_deadline(const struct nvs_room_state *state)
{
	return earlier(earlier(grow_deadline(state), resident_deadline(state)),
		       keep_deadline(state));
}

static void say_grow(struct nvs_room_state *state, uint64_t now, struct nvs_frame *frame)
{
	state->request++;
	state->request_held = state->held;
	state->request_kind = state->wanting ? state->wanted_kind : NVS_ROOM_MOVABLE;
	state->request_footprint_bytes = grow_footprint(state);
	state->request_fixed_bytes = grow_fixed(state);
	state->grow_at = now + GROW_US;
	frame->type = NVS_GROW;
	frame->request = state->request;
	frame->footprint_bytes = state->request_footprint_bytes;
	frame->memory.fixed_bytes = state->request_fixed_bytes;
}

/* It wants nothing, and goes by all that it was told. */
static bool is_settled(const struct nvs_room_state *state)
{
	return !state->wanting && state->answered == state->request &&
	       state->order == state->heard_order;
}

/* What was freed is given back, but for some slack; not while more is wanted. */
static void lower(struct nvs_room_state *state)
{
	uint64_t more = slack(state->footprint_bytes);

	/* The scheduler counts no more than it is told here: for more it is asked again. */
	state->fixed_admitted_bytes = kept(state);
	if (keeps_none(state))
		state->fixed_most_bytes = state->fixed_before_bytes = state->fixed_bytes;
	if (is_settled(state) && state->admitted_bytes > state->footprint_bytes + 2 * more)
		state->admitted_bytes = state->footprint_bytes + more;
}

/*
 * Host memory beyond what is admitted goes back a while later, since a program may free and
 * allocate in each of its steps, and making it takes long. Not while more is wanted.
 */
static void find_surplus(struct nvs_room_state *state, uint64_t now)
{
	if (!is_settled(state) || !nvs_room_state_unneeded(state))
		state->surplus_at = 0;
	else if (!state->surplus_at)
		state->surplus_at = now + SURPLUS_US;
}

static void say_resident(struct nvs_room_state *state, uint64_t now, struct nvs_frame *frame)
{
	lower(state);
	find_surplus(state, now);
	frame->type = NVS_RESIDENT;
	frame->memory.order = state->said_order = state->order;
	frame->footprint_bytes = state->said_footprint_bytes = state->footprint_bytes;
	frame->memory.resident_bytes = state->said_resident_bytes = resident(state);
	frame->memory.fixed_bytes = state->said_fixed_bytes = kept(state);
	frame->memory.admitted_bytes = state->said_admitted_bytes = state->admitted_bytes;
	state->said_received_bytes = state->received_bytes;
	state->said_offered_bytes = state->offered_bytes;
	frame->memory.segment_bytes = state->said_returned_bytes = state->returned_bytes;
	frame->memory.arena_bytes = state->received_bytes - state->returned_bytes;
	frame->memory.usable_bytes = state->offered_bytes - state->returned_bytes;
	frame->memory.lacking_bytes = state->lacking_bytes;
	state->lacking_bytes = 0;
	state->urgent = state->moved = false;
	state->say_at = now + SAY_US;
	state->moved_at = now + MOVED_US;
}

bool nvs_room_state_say(struct nvs_room_state *state, uint64_t now, bool all,
			struct nvs_frame *frame)
{
	uint64_t resident_at;

	keep(state, now);
	resident_at = resident_deadline(state);
	/* First how it is, then what is wanted. */
	if (resident_at <= now || (all && resident_at != NVS_ROOM_NEVER))
		say_resident(state, now, frame);
	else if (grow_deadline(state) <= now)
		say_grow(state, now, frame);
	else
		return false;
	return true;
}
