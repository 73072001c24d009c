/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process may have on a device, and what has to be said and done about that.
 * Pure: no lock, no clock, no system call. A state belongs to one thread at a time. Times are
 * microseconds of any monotonic clock.
 *
 * Two numbers are the scheduler's: the footprint may become what is admitted, and of it as much may
 * be resident as is allotted. A lower allotment counts at once, but not while the lock is held and
 * more is resident: then when it is given back. Whoever wants more asks (GROW), one at a time.
 *
 * Of fixed memory the scheduler counts what this side had lately, not what it has: a program that
 * takes and gives memory in each of its steps is not to ask in each of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/wire.h"

/* The container's memory limit, and what its other processes have allocated of it. */
struct nvs_limit {
	uint64_t bytes; /* UINT64_MAX: none */
	uint64_t others_bytes;
};

/* How much of a limit is left for one that has so much. */
static inline uint64_t nvs_limit_left(const struct nvs_limit *limit, uint64_t own_bytes)
{
	uint64_t left = limit->bytes;

	left = left > limit->others_bytes ? left - limit->others_bytes : 0;
	return left > own_bytes ? left - own_bytes : 0;
}

/* cdef begin */
#define NVS_ROOM_NEVER 0xffffffffffffffff

enum nvs_room_link {
	NVS_ROOM_LINK_NEW = 0,	   /* nothing was tried yet, or the first attempt goes on */
	NVS_ROOM_LINK_DOWN = 1,	   /* nobody to ask */
	NVS_ROOM_LINK_UNAWARE = 2, /* a scheduler that knows nothing of memory that swaps */
	NVS_ROOM_LINK_UP = 3,
};

/* What is wanted. */
enum nvs_room_kind {
	NVS_ROOM_MOVABLE = 0,
	NVS_ROOM_FIXED = 1,
	NVS_ROOM_CONTEXT = 2, /* the first one of the process on the device */
};

enum nvs_room {
	NVS_ROOM_REFUSED = 0, /* CUDA_ERROR_OUT_OF_MEMORY; the reason was logged */
	NVS_ROOM_IN = 1,      /* with device memory; counted as resident from now on */
	/*
	 * without: the gate is closed. Once the chunks are where the mover finds them,
	 * nvs_room_changed tells it.
	 */
	NVS_ROOM_OUT = 2,
	NVS_ROOM_WAIT = 3, /* of the state alone: not now */
};

enum nvs_room_move {
	NVS_ROOM_NOTHING = 0,
	NVS_ROOM_BRING_OUT = 1,
	NVS_ROOM_BRING_IN = 2,
};

struct nvs_room_state {
	int link;     /* enum nvs_room_link */
	bool limited; /* the numbers of some scheduler count, be it gone */
	bool held;    /* the lock; what is resident stays, and all has to be */
	bool lost;    /* the device, to this process: nothing more is had, nor kept */
	/* Of the scheduler. */
	uint64_t order, allotted_bytes;		  /* that counts */
	uint64_t next_order, next_allotted_bytes; /* counts when the lock is given back; 0: none */
	uint64_t heard_order;			  /* the newest */
	uint64_t admitted_bytes;
	uint64_t capacity_bytes; /* 0: not known */
	uint64_t fixed_admitted_bytes;
	bool context_admitted;
	/* Of this process. */
	uint64_t footprint_bytes;
	uint64_t resident_bytes; /* with entering_bytes and leaving_bytes */
	uint64_t entering_bytes, leaving_bytes;
	uint64_t fixed_bytes;
	uint64_t fixed_most_bytes, fixed_before_bytes; /* since kept_from, and in the time before */
	uint64_t kept_from;
	/* Host memory: of all that ever came, what could be used, and what was given back. */
	uint64_t received_bytes, offered_bytes, returned_bytes;
	uint64_t surplus_at; /* when what is beyond the admitted goes back; 0: nothing is */
	/* Who waits, and has not been answered. */
	bool wanting;
	int wanted_kind; /* enum nvs_room_kind */
	uint64_t wanted_bytes;
	/* The last GROW. */
	uint32_t request, answered; /* answered == request: none is outstanding */
	bool request_held;
	int request_kind;
	uint64_t request_footprint_bytes, request_fixed_bytes;
	uint64_t grow_at; /* when the same may be asked for again */
	/* The last RESIDENT. */
	bool urgent; /* there is more to say, now */
	bool moved;  /* something has come in or left, which is said at moved_at */
	uint64_t moved_at;
	uint64_t say_at; /* when there may be another one */
	uint64_t lacking_bytes;
	uint64_t said_order, said_footprint_bytes, said_resident_bytes, said_fixed_bytes;
	uint64_t said_admitted_bytes, said_received_bytes, said_offered_bytes, said_returned_bytes;
};

void nvs_room_state_init(struct nvs_room_state *state);
/* There is a scheduler to ask, and what it says counts. */
bool nvs_room_state_asked(const struct nvs_room_state *state);
/* There is none, and the next one is waited for where the driver has too little. */
bool nvs_room_state_lost(const struct nvs_room_state *state);
/* UP: with another scheduler, or the same one, which has forgotten all. */
void nvs_room_state_link(struct nvs_room_state *state, int link);
/* ALLOT or EVICT. False: it is older than one that came before. */
bool nvs_room_state_allot(struct nvs_room_state *state, const struct nvs_frame *frame);
/* REFUSE_GROWTH. True: it is for who waits now, whose wish is forgotten; false: for nobody. */
bool nvs_room_state_refuse(struct nvs_room_state *state, uint32_t request);

/* Whether so much may be had now; enum nvs_room. Changes nothing. */
int nvs_room_state_try(const struct nvs_room_state *state, int kind, uint64_t bytes);
/*
 * The same for what the driver had no memory for: a scheduler that is lost is waited for, because
 * only the next one can make room.
 */
int nvs_room_state_try_again(const struct nvs_room_state *state, int kind, uint64_t bytes);
/* It is had; `room` is what nvs_room_state_try answered. */
void nvs_room_state_take(struct nvs_room_state *state, int kind, uint64_t bytes, int room);
/* What was had with device memory is not: the driver has none. */
void nvs_room_state_take_back(struct nvs_room_state *state, int kind, uint64_t bytes);
/* Somebody waits for so much, and is the first of those who wait. */
void nvs_room_state_want(struct nvs_room_state *state, int kind, uint64_t bytes);
/* Nobody waits. */
void nvs_room_state_want_none(struct nvs_room_state *state);
void nvs_room_state_give(struct nvs_room_state *state, uint64_t bytes, uint64_t resident);
/*
 * Of what was had with device memory, so much is without; false: not while the lock is held, for
 * then all has to be resident, and not what no scheduler has admitted or, where none has said
 * anything yet, what could never be on the device, of which so much is `usable`.
 */
bool nvs_room_state_forgo(struct nvs_room_state *state, uint64_t bytes, uint64_t usable);
/* Fixed memory is less, or (unasked) more. */
void nvs_room_state_count_fixed(struct nvs_room_state *state, int64_t change);
/* Resident bytes became fixed, or (negative) fixed ones movable. */
void nvs_room_state_pin(struct nvs_room_state *state, int64_t bytes);
/* The driver refused what was allowed. */
void nvs_room_state_lack(struct nvs_room_state *state, uint64_t bytes);

/* The lock. */
void nvs_room_state_hold(struct nvs_room_state *state);
void nvs_room_state_release(struct nvs_room_state *state);
/* All is in. */
bool nvs_room_state_ready(const struct nvs_room_state *state);

/* What the mover should do next, and of how many bytes; enum nvs_room_move. */
int nvs_room_state_next(const struct nvs_room_state *state, uint64_t *bytes);
/*
 * It is about to bring a chunk out; false: nothing may leave (any more). That is over, and (`gone`)
 * its device memory is released.
 */
bool nvs_room_state_leave(struct nvs_room_state *state, uint64_t bytes);
void nvs_room_state_left(struct nvs_room_state *state, uint64_t bytes, bool gone);
/* It is about to make device memory for what is out; false: it may not. That is over. */
bool nvs_room_state_enter(struct nvs_room_state *state, uint64_t bytes);
void nvs_room_state_entered(struct nvs_room_state *state, uint64_t bytes, bool in);
/*
 * Of all host memory that ever came, what could be used and what was given back. Threads may say it
 * in another order than that in which it was so.
 */
void nvs_room_state_set_arena(struct nvs_room_state *state, uint64_t received, uint64_t offered,
			      uint64_t returned);
/* How much of it is of no use: what may be allocated unasked needs as much. */
uint64_t nvs_room_state_unneeded(const struct nvs_room_state *state);
/* How much of it is to go back now. */
uint64_t nvs_room_state_surplus(const struct nvs_room_state *state, uint64_t now);
/* That is not possible as it is. */
void nvs_room_state_keep_surplus(struct nvs_room_state *state);

/*
 * What is to be said now: GROW or RESIDENT with its numbers, and it counts as said; false: nothing.
 * `all`: also what could wait.
 */
bool nvs_room_state_say(struct nvs_room_state *state, uint64_t now, bool all,
			struct nvs_frame *frame);
/* When there is something to say; 0: now. */
uint64_t nvs_room_state_deadline(const struct nvs_room_state *state);
/* cdef end */
