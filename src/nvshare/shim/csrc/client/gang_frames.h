/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's half of a gang: the page that it shares with the others (gang_page.h). Belongs to the
 * client's thread.
 */
#ifndef NVSHARE_GANG_FRAMES_H
#define NVSHARE_GANG_FRAMES_H

#include <stdbool.h>

#include "client/connection.h"
#include "client/lock_types.h"

struct nvs_device;

/* A frame came. False: it is a GANG that no scheduler would send. Takes the descriptor of one. */
bool nvs_gang_heard(struct nvs_device *device, struct nvs_connection *connection);
/* The lock's state has handled an event. */
void nvs_gang_follow(struct nvs_device *device, const struct nvs_lock_state *state);

#endif
