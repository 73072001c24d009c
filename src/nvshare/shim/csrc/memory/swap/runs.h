/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run: chunks one behind the other, which are what one allocation, slab or handle is made of. The
 * only way from the program's wish to device memory that moves: it asks for room (room.h), and for
 * more time when the driver has none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "memory/room.h"

struct nvs_chunk;
struct nvs_device;

struct nvs_run {
	struct nvs_device *device;
	struct nvs_room_given given; /* of which no chunk was made yet */
	uint64_t each;		     /* the most that a chunk has */
	size_t count;
	struct nvs_chunk *chunks[];
};

/*
 * Waits for room for at least so many bytes, in whole granules and chunks of at most `each`. In the
 * program's thread. Anything but CUDA_SUCCESS: there is none.
 */
CUresult nvs_run_begin(struct nvs_device *device, uint64_t bytes, uint64_t each,
		       struct nvs_run **run);
/*
 * Makes the chunks, which lie from `start` on; `place` gives each, entered, its addresses. `prop`
 * NULL: plain memory of the device. On failure what was made is in the run.
 */
CUresult nvs_run_fill(struct nvs_run *run, const CUmemAllocationProp_v1 *prop, CUdeviceptr start,
		      CUresult (*place)(struct nvs_chunk *chunk, CUdeviceptr address));
/* Nothing may use it any more. Waits while the mover has one of its chunks. */
void nvs_run_end(struct nvs_run *run);
/*
 * The chunks of a part of it can't move from now on: somebody knows their device memory by other
 * names. The caller has passed the gate of the device. False: one is out.
 */
bool nvs_run_pin(struct nvs_run *run, uint64_t offset, uint64_t bytes);
