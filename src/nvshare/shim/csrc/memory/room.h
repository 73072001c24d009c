/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process may have on a device, and how much of that on the device itself, as
 * the scheduler has told. Footprint: what can move, on the device or out, in whole chunks, so in
 * multiples of 2 MiB. Resident: those bytes of it that have device memory, or are just getting or
 * losing it. Fixed: what is counted and can't move.
 *
 * Every function may be called from any thread, with no lock of the room's callers' needed: the
 * room's own lock is short, and nobody is called with it held. Only those that say so wait. Without
 * a scheduler that knows of memory that swaps nothing is limited. While one that was there is gone
 * nobody waits for what the driver has; what it has not waits for the next scheduler, which makes
 * room for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memory/room_state.h"
#include "protocol/wire.h"

struct nvs_device;

/*
 * As the environment says until the scheduler has said it. A device may be asked about before this
 * process uses it, and one that it does not know.
 */
struct nvs_limit nvs_limit_of(int ordinal);

/* For calls that allocate. They have a lock of nobody: each of these may wait. */

/*
 * Waits until the footprint may grow by `bytes`, and counts them. The answer holds for all of them.
 * Whoever then can't get them gives them back. A handler of Python's that raises ends the wait:
 * refused.
 */
enum nvs_room nvs_room_ask(struct nvs_device *device, uint64_t bytes);
/*
 * Of the footprint, `bytes` are no more (or came to nothing); `resident` of them were counted as
 * resident. Does not wait.
 */
void nvs_room_give(struct nvs_device *device, uint64_t bytes, uint64_t resident);
/*
 * The same for memory that can't move: arrays, pools, what is exported; and for all memory of a
 * device whose memory does not swap. Waits for device memory, whether the gate is open or not.
 * False: refused, also because all that the process has would become more than `most`. Of 0 bytes:
 * waits until the container's limit is known.
 */
bool nvs_room_ask_fixed(struct nvs_device *device, uint64_t bytes, uint64_t most);
void nvs_room_give_fixed(struct nvs_device *device, uint64_t bytes);
/*
 * The book (account.h) charges so much in place of what nvs_room_ask_fixed gave, which may be
 * nothing; negative: it is given back.
 */
void nvs_room_commit(struct nvs_device *device, uint64_t given, int64_t charged);
/* Graphs have allocated so much on the device, as measured now. */
void nvs_room_set_graphs(struct nvs_device *device, uint64_t bytes);
/*
 * Whether the device has so much at all, which the scheduler need not be asked; the first time that
 * it has not is logged.
 */
bool nvs_room_possible(struct nvs_device *device, uint64_t bytes);
/* So many resident bytes of the footprint can't move from now on: they are fixed. Does not wait. */
void nvs_room_pin(struct nvs_device *device, uint64_t bytes);
/*
 * Before the first context of this process on the device: waits until there is room for one. False:
 * refused, and logged. Later calls return at once, as do those that find no scheduler that knows
 * of such room.
 */
bool nvs_room_for_context(struct nvs_device *device);
/* What one of these functions gave to a call of the program's, and is not in use yet. */
struct nvs_room_given {
	enum nvs_room_kind kind;
	enum nvs_room room;
	uint64_t bytes;
	unsigned int tries; /* how often the driver has refused it */
};
/* By nvs_room_ask_fixed. */
static inline struct nvs_room_given nvs_room_given_fixed(uint64_t bytes)
{
	return (struct nvs_room_given){ .kind = NVS_ROOM_FIXED,
					.room = NVS_ROOM_IN,
					.bytes = bytes };
}
/*
 * The driver has refused `bytes` of what was given as NVS_ROOM_IN: the scheduler is told, and some
 * time is given to it; where there is none it is waited for, and asked for all that is not in use
 * yet.
 * True: the driver is to be asked again, or (NVS_ROOM_OUT) it goes without. False: it has been
 * tried for long enough (some 10 s), nobody would make room, or the next scheduler refuses: the
 * driver's answer stands, and nothing is given any more.
 */
bool nvs_room_lacking(struct nvs_device *device, struct nvs_room_given *given, uint64_t bytes);
/*
 * The same, but the gate is closed, so nothing needs the memory yet: what nvs_room_ask gave as
 * NVS_ROOM_IN is NVS_ROOM_OUT. False: the lock has come meanwhile, nobody has admitted it, or it
 * could never be on the device.
 */
bool nvs_room_forgo(struct nvs_device *device, uint64_t bytes);

/* The most that the footprint may become, for the view; UINT64_MAX: nobody knows. */
uint64_t nvs_room_capacity(struct nvs_device *device);
/* What is counted now. */
uint64_t nvs_room_footprint(struct nvs_device *device);

/* For the client. None of these waits. */

/*
 * The device is lost (lost.h): nothing is given any more, and once the lock is given back nothing
 * stays. Any thread.
 */
void nvs_room_lose(struct nvs_device *device);
/* The link has become so. UP: everything is said again. */
void nvs_room_link(struct nvs_device *device, enum nvs_room_link link);
/* ALLOT or EVICT came. False: it says what no scheduler would. */
bool nvs_room_allot(struct nvs_device *device, const struct nvs_frame *frame);
/* REFUSE_GROWTH came, of that request. */
void nvs_room_refuse(struct nvs_device *device, uint32_t request, const char *reason);
/* Whether there is a scheduler that will say the container's limit as soon as it knows. */
void nvs_room_expect_limit(struct nvs_device *device, bool expected);
/* LIMIT came; or the scheduler does not know it in time, because of `reason`. */
void nvs_room_set_limit(struct nvs_device *device, const struct nvs_frame *frame);
void nvs_room_withhold_limit(struct nvs_device *device, const char *reason);
/*
 * What is to be said to the scheduler now, with the numbers in the frame, whose head is the
 * client's; false: nothing. `before_request`: all that it does not know yet, since REQ_LOCK
 * follows.
 */
bool nvs_room_say(struct nvs_device *device, uint64_t now_us, bool before_request,
		  struct nvs_frame *frame);
/* When there will be something to say, in microseconds; UINT64_MAX: not before it changes. */
uint64_t nvs_room_deadline(struct nvs_device *device);
/*
 * The lock is held from now on: what is allocated gets device memory, and nothing leaves. True:
 * all is there, and the gate may be opened; false: NVS_NEWS_ROOM is told when it is.
 */
bool nvs_room_hold(struct nvs_device *device);
/* Whether the gate may be opened now, while the lock is held. */
bool nvs_room_ready(struct nvs_device *device);
/* The lock is given back: the gate is closed, and nothing of this process runs. */
void nvs_room_release(struct nvs_device *device);

/* For the mover. */

/* What is to do, without waiting. `bytes`: of how much, for OUT and IN. */
enum nvs_room_move nvs_room_next(struct nvs_device *device, uint64_t *bytes);
/* Counts what may change that. */
uint32_t nvs_room_changes(struct nvs_device *device);
/* Waits until the count is another one than it was, at most for so long; UINT64_MAX: for ever. */
void nvs_room_wait(struct nvs_device *device, uint32_t changes, uint64_t timeout_ns);
/* Something changed that the mover should look at: chunks are where it finds them. */
void nvs_room_changed(struct nvs_device *device);
/*
 * Before a chunk is brought out; false: nothing may leave (any more). After that: it is over, and
 * (`gone`) its device memory is released.
 */
bool nvs_room_leave(struct nvs_device *device, uint64_t bytes);
void nvs_room_left(struct nvs_device *device, uint64_t bytes, bool gone);
/* Before chunks that are out get so much device memory; false: that is not allowed (any more). */
bool nvs_room_enter(struct nvs_device *device, uint64_t bytes);
/* After that: they are in, or (false) out as before. */
void nvs_room_entered(struct nvs_device *device, uint64_t bytes, bool in);
/* The driver has refused so much that was allowed. */
void nvs_room_refused(struct nvs_device *device, uint64_t bytes);
/* The lock is held, or what was submitted with it still runs. */
bool nvs_room_held(struct nvs_device *device);
/* See nvs_room_state_set_arena. */
void nvs_room_set_arena(struct nvs_device *device, uint64_t received, uint64_t offered,
			uint64_t returned);
/*
 * How much host memory is to go back now. `wait_ns`: in what time some may have to; UINT64_MAX: it
 * is there, or none will.
 */
uint64_t nvs_room_surplus(struct nvs_device *device, uint64_t *wait_ns);
/* That is not possible as it is. */
void nvs_room_keep_surplus(struct nvs_device *device);

/* In a forked child. */
void nvs_rooms_forked(void);
