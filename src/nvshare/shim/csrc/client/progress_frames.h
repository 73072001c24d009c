/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client says of how its work goes on, while a scheduler watches it (WATCH): in intervals
 * while the gate is open, as it opens, and when all has completed before the lock is given back.
 * Belongs to the client's thread.
 */
#ifndef NVSHARE_PROGRESS_FRAMES_H
#define NVSHARE_PROGRESS_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lock_types.h"
#include "protocol/wire.h"

struct nvs_device;

struct nvs_progress_frames {
	struct nvs_device *device;
	uint32_t interval_us; /* 0: nobody watches */
	uint64_t next_at;     /* if the gate is open then */
	bool together;	      /* all hold at the same time, and are to go on so */
};

/* A frame came. True: it is WATCH, from a scheduler that may send it. */
bool nvs_progress_heard(struct nvs_progress_frames *progress, const struct nvs_lock_state *state,
			const struct nvs_frame *frame, uint64_t now);
/* The lock's state has handled an event: who is not connected is not watched. */
void nvs_progress_follow(struct nvs_progress_frames *progress, const struct nvs_lock_state *state);
/* When there is something to say; NVS_LOCK_NEVER: nothing. `open`: the gate is. */
uint64_t nvs_progress_deadline(const struct nvs_progress_frames *progress, bool open);
/* How far the work is; false: nobody watches. */
bool nvs_progress_frame(struct nvs_progress_frames *progress, uint64_t now,
			struct nvs_frame *frame);

#endif
