/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ties this process to others on each of its devices, and the threads that wait until the
 * scheduler knows it. Any thread may call; each call takes one short lock of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/wire.h"

struct nvs_device;

/* What there is to wait for. */
enum nvs_ties_link {
	NVS_TIES_LINK_TRYING = 0,  /* the first connection is being made */
	NVS_TIES_LINK_UP = 1,	   /* a scheduler that knows of ties */
	NVS_TIES_LINK_WITHOUT = 2, /* none */
};

/*
 * The work of this process on the device may wait for that of all who say the same: from now until
 * as many nvs_untie. False: it can't be told, because there are too many or the user wants none.
 */
bool nvs_tie(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
	     enum nvs_wire_tie tie, uint32_t size);
void nvs_untie(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
	       enum nvs_wire_tie tie);
/*
 * Waits until the tie is in effect; not for ever, and not when nobody is there to say so. The
 * caller holds nothing that the gate's closing needs: the lock of the device may have to be given
 * back meanwhile.
 */
void nvs_tie_wait(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
		  enum nvs_wire_tie tie);

/*
 * Memory of the device is known to other processes by these bytes, for as long as this one lives.
 * Waits.
 */
void nvs_tie_for_good(struct nvs_device *device, const void *bytes, size_t count);

/*
 * Calls to one of these devices, a bit for each ordinal, need the locks of others of them as well,
 * for as long as the process lives: they have them together or not at all. Waits.
 */
void nvs_tie_devices(uint64_t devices);
/*
 * Whether each of these devices, a bit for each ordinal, is held together with others: it is tied,
 * and there is a scheduler that knows of ties, or there may be one yet.
 */
bool nvs_ties_hold(uint64_t devices);

/* The device is used for the first time: what the user says of it. */
void nvs_ties_begin(struct nvs_device *device);
/* In a forked child, which is tied to nobody. */
void nvs_ties_forked(void);

/* For the client's thread. A link that comes up is to a scheduler that knows nothing. */
void nvs_ties_link(struct nvs_device *device, enum nvs_ties_link link);
/* The next JOIN or LEAVE, but for the frame's head; false: the scheduler knows all. */
bool nvs_ties_say(struct nvs_device *device, struct nvs_frame *frame);
/* JOINED came; false: it should not have. */
bool nvs_ties_heard(struct nvs_device *device, const struct nvs_frame *frame);
