/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's half of ties: what it says of them to a scheduler that knows of gangs. Belongs to the
 * client's thread.
 */
#ifndef NVSHARE_JOIN_FRAMES_H
#define NVSHARE_JOIN_FRAMES_H

#include <stdbool.h>

#include "client/connection.h"
#include "client/lock_types.h"
#include "protocol/wire.h"

struct nvs_device;

/* The lock's state has handled an event. */
void nvs_join_follow(struct nvs_device *device, const struct nvs_lock_state *state);
/* The next frame; false: nothing is to be said. */
bool nvs_join_next_frame(struct nvs_device *device, struct nvs_frame *frame);
/* A frame came. False: it is no answer to a JOIN. */
bool nvs_join_heard(struct nvs_device *device, const struct nvs_connection *connection);

#endif
