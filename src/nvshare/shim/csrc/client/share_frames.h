/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's part in memory that one process gives and another one maps: between the scheduler and
 * what this process gives (exports.h) and wants (parts.h). Belongs to the client's thread.
 */
#ifndef NVSHARE_SHARE_FRAMES_H
#define NVSHARE_SHARE_FRAMES_H

#include "client/connection.h"
#include "client/lock_types.h"
#include "client/memory_frames.h"

struct nvs_device;

struct nvs_share_frames {
	struct nvs_device *device;
	int link; /* enum nvs_parts_link */
};

/* The lock's state has handled an event. */
void nvs_share_follow(struct nvs_share_frames *share, const struct nvs_lock_state *state);
/* Says all that there is to say. */
void nvs_share_say(struct nvs_share_frames *share, struct nvs_connection *connection);
/* A frame came; NVS_HEARD_MEMORY: it was about this, and its descriptor is taken. */
enum nvs_heard nvs_share_heard(struct nvs_share_frames *share, struct nvs_connection *connection);

#endif
