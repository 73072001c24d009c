/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An extent: a reservation of addresses with chunks mapped all over it, which is what a block of
 * plain memory, or a slab, is made of.
 */
#ifndef NVSHARE_EXTENTS_H
#define NVSHARE_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

struct nvs_chunk;
struct nvs_device;

struct nvs_extent {
	struct nvs_device *device;
	CUdeviceptr start;
	uint64_t bytes; /* whole granules */
	unsigned int chunks_count;
	struct nvs_chunk *chunks[];
};

/*
 * Waits for room and makes an extent of at least so many bytes. In the program's thread, as
 * nvs_room_ask.
 */
CUresult nvs_extent_make(struct nvs_device *device, uint64_t bytes, struct nvs_extent **extent);
/* Nothing may use it any more. Waits while the mover has one of its chunks. */
void nvs_extent_end(struct nvs_extent *extent);
/*
 * The chunks that these addresses lie in can't move from now on; the caller has passed the gate.
 * False: one is out.
 */
bool nvs_extent_pin(struct nvs_extent *extent, CUdeviceptr start, uint64_t bytes);

#endif
