/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's half of memory: what it says of the device's footprint or, where memory swaps, between
 * the scheduler and the room (room.h). Belongs to the client's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/lock_types.h"
#include "protocol/wire.h"

struct nvs_device;

struct nvs_memory_frames {
	struct nvs_device *device;
	bool swaps; /* the device's memory does; from the first REGISTER on */
	bool up;    /* a scheduler has taken the client */
	bool opens; /* the lock is held, and the gate waits until all is in */
	int link;   /* enum nvs_room_link, as the room knows it */
	/* the newest that the scheduler knows; when the next may go */
	uint64_t footprint_sent, footprint_at;
};

#define NVS_REASON_OF_MEMORY 1 /* the request of ASK_REASON and REASON */

/* What REGISTER says. */
void nvs_memory_registers(struct nvs_memory_frames *memory, struct nvs_frame *frame);
/* The lock's state has handled an event. */
void nvs_memory_follow(struct nvs_memory_frames *memory, const struct nvs_lock_state *state);
/*
 * When there is something to say; NVS_LOCK_NEVER: nothing. `changed`: the footprint may have, since
 * it was said.
 */
uint64_t nvs_memory_deadline(const struct nvs_memory_frames *memory,
			     const struct nvs_lock_state *state, bool changed);
/* The next frame; false: nothing is to be said now. `all`: not even later. */
bool nvs_memory_next_frame(struct nvs_memory_frames *memory, uint64_t now, bool all,
			   struct nvs_frame *frame);
/* ALLOT or EVICT came. False: it says what no scheduler would. */
bool nvs_memory_allot(struct nvs_memory_frames *memory, const struct nvs_frame *frame);
/* A call waits for memory: its user is told why, by the scheduler if that can say it. */
void nvs_memory_waits(const struct nvs_memory_frames *memory, const struct nvs_lock_state *state,
		      struct nvs_connection *connection);
void nvs_memory_say_why(const struct nvs_device *device, const char *reason);
/* The lock is held. False: not all is in, and the gate has to wait for it. */
bool nvs_memory_may_open(struct nvs_memory_frames *memory);
/* What the gate waited for is there. */
bool nvs_memory_opens_now(struct nvs_memory_frames *memory);
/* The gate does not wait any more: the lock is to be given back. */
void nvs_memory_give_up(struct nvs_memory_frames *memory);
/* The device is lost, and nothing runs there: what can be freed of its memory is. */
void nvs_memory_lose(struct nvs_memory_frames *memory);
/* The lock is given back. */
void nvs_memory_released(struct nvs_memory_frames *memory);
