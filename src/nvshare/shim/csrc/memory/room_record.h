/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's room and its lock, for room.c (those who wait) and room_changes.c (those who don't).
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
	bool again;		 /* the driver had none */
	int room;		 /* enum nvs_room; before `served` changes */
	_Atomic uint32_t served; /* futex word */
};

struct nvs_room_record {
	struct nvs_mutex lock;
	struct nvs_room_state state;
	struct nvs_room_waiter *first; /* in the order in which they came */
	uint64_t deadline;	       /* that the client knows; 0: it is about to look */
	uint64_t footprint_told;       /* of which the client heard last, for a scheduler that
					* knows nothing of memory that swaps */
	bool opens;		       /* the client waits for all to be in */
	bool refused;		       /* and said so */
	bool impossible;	       /* more than the device has was asked for, and said so */
	uint64_t graph_bytes;	       /* charged for graphs */
	_Atomic uint32_t changes;      /* futex word */
};

struct nvs_room_record *nvs_room_lock(const struct nvs_device *device);
/*
 * After a change: whoever need not wait any more goes on, and those whom it concerns are told: the
 * mover if there is something to move.
 */
void nvs_room_unlock(struct nvs_device *device, struct nvs_room_record *room);
/* The same after what the mover did itself: it does not go on because of that. */
void nvs_room_unlock_mover(struct nvs_device *device, struct nvs_room_record *room);
/* The same after what concerns the mover beside what there is to move. */
void nvs_room_unlock_look(struct nvs_device *device, struct nvs_room_record *room);
/* After looking only. */
void nvs_room_unlock_same(struct nvs_room_record *room);
/*
 * One of those who wait, by the place that leads to it, has its answer. With the lock held, unless
 * it was taken from among them before.
 */
void nvs_room_answer(struct nvs_room_waiter **place, int answer);
