/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's room and its lock, for room.c and room_ask.c (those who allocate).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/room_state.h"
#include "process/mutex.h"

struct nvs_device;

/* A thread that waits for room; on its stack. */
struct nvs_room_waiter {
	struct nvs_room_waiter *next;
	int kind; /* enum nvs_room_kind */
	uint64_t bytes;
	uint64_t most;		 /* that all of the process may become */
	uint64_t until_ns;	 /* when it has waited for long enough; 0: never */
	bool again;		 /* the driver had none */
	bool for_limit;		 /* not for room: until the scheduler says something of the limit */
	bool tired;		 /* of a limit that nobody says */
	bool told;		 /* its user, that it waits */
	int room;		 /* enum nvs_room; before `served` changes */
	_Atomic uint32_t served; /* futex word */
};

/* What the scheduler has said of the container's memory limit. */
enum nvs_limit_word {
	NVS_LIMIT_UNSURE = 0, /* whether one will say it */
	NVS_LIMIT_EXPECTED,   /* there is one that will, as soon as it knows */
	NVS_LIMIT_UNEXPECTED,
	NVS_LIMIT_WITHHELD, /* it does not know it in time: until then all memory is refused */
	NVS_LIMIT_SAID	    /* once: that counts, whatever becomes of the scheduler */
};

struct nvs_room_record {
	struct nvs_mutex lock;
	struct nvs_device *device;
	struct nvs_room_state state;
	struct nvs_room_waiter *first;	 /* in the order in which they came */
	struct nvs_room_waiter *limited; /* those who wait for the limit */
	enum nvs_limit_word limit_word;
	struct nvs_limit limit;			  /* SAID */
	char withheld[NVS_WIRE_WHOLE_TEXT_BYTES]; /* why; empty once that is logged */
	uint64_t deadline;	  /* that the client knows; 0: it is about to look */
	uint64_t footprint_told;  /* of which the client heard last, for a scheduler that
				   * knows nothing of memory that swaps */
	bool opens;		  /* the client waits for all to be in */
	bool refused;		  /* and said so */
	bool impossible;	  /* more than the device has was asked for, and said so */
	uint64_t graph_bytes;	  /* charged for graphs */
	_Atomic uint32_t changes; /* futex word */
};

struct nvs_room_record *nvs_room_lock(struct nvs_device *device);
/*
 * These give the lock back, where a block ends (NVS_ENDS) or by themselves. After a change: whoever
 * need not wait any more goes on, and those whom it concerns are told: the mover if there is
 * something to move.
 */
void nvs_room_unlock(struct nvs_room_record *const *room);
/* The same after what the mover did itself: it does not go on because of that. */
void nvs_room_unlock_mover(struct nvs_room_record *const *room);
/* The same after what concerns the mover beside what there is to move. */
void nvs_room_unlock_look(struct nvs_room_record *const *room);
/* After looking only. */
void nvs_room_unlock_same(struct nvs_room_record *const *room);
/*
 * As nvs_room_unlock, and then says that so much was refused because of a limit; `reason`: why,
 * empty if the numbers say all. Only if `said` was not set yet: programs that try again with less
 * would fill the screen.
 */
void nvs_room_say_refused(struct nvs_room_record *room, bool *said, struct nvs_limit limit,
			  uint64_t asked, const char *reason);
/* With the lock held: the container's limit, as far as it is known. */
struct nvs_limit nvs_room_limit(const struct nvs_room_record *room);
/*
 * With the lock held: whether so much more passes the container's memory limit. A scheduler that is
 * asked sees to that itself, and knows better what others have.
 */
bool nvs_room_passes_limit(const struct nvs_room_record *room, int kind, uint64_t bytes);
/* With the lock held: all that this process has on the device. */
static inline uint64_t nvs_room_used(const struct nvs_room_record *room)
{
	return room->state.footprint_bytes + room->state.fixed_bytes;
}
/*
 * One of those who wait, by the place that leads to it, has its answer. With the lock held, unless
 * it was taken from among them before.
 */
void nvs_room_answer(struct nvs_room_waiter **place, int answer);
