/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of other processes' memory, one by one: what this process wants of the scheduler, and the
 * threads that wait for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "process/files.h"
#include "protocol/wire.h"

struct nvs_device;

enum nvs_parts_link {
	NVS_PARTS_LINK_DOWN = 0, /* the next scheduler is waited for */
	NVS_PARTS_LINK_UP = 1,	 /* to a scheduler that knows of this */
	NVS_PARTS_LINK_WITHOUT = 2
};

struct nvs_part {
	struct nvs_wire_shared shared;
	struct nvs_file descriptor; /* the caller's to close */
};

/*
 * Asks on the device's connection for one part, and waits for it with a limit. Anything but
 * CUDA_SUCCESS: there is none, and why was said in the log.
 */
CUresult nvs_part_ask(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
		      uint32_t index, struct nvs_part *part);

/* For the client. None of these waits. */

void nvs_parts_link(struct nvs_device *device, enum nvs_parts_link link);
/* The next frame that is to be said, whose head is the client's; false: there is none. */
bool nvs_parts_say(struct nvs_device *device, struct nvs_frame *frame);
/* SHARED or NOT_SHARED came: takes the descriptor, unless nobody waits for it any more. */
void nvs_parts_heard(struct nvs_device *device, const struct nvs_frame *frame, const char *text,
		     struct nvs_file *descriptor);

/* In a forked child, with nvs_files_lock held. */
void nvs_parts_forked(void);
