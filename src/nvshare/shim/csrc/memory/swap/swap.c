/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend `swap`: plain memory made of chunks that move to host memory and back. How much there
 * may be is the room's business. No state, no lock.
 */
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/memory.h"
#include "memory/pitch.h"
#include "memory/room.h"
#include "memory/swap/blocks.h"

static CUresult swap_alloc(CUdeviceptr *pointer, size_t bytes)
{
	struct nvs_device *device = nvs_device_of(NULL);

	return device ? nvs_block_alloc(device, bytes, pointer) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult swap_alloc_pitch(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
				 unsigned int element)
{
	return nvs_pitch_alloc(swap_alloc, pointer, pitch, width, height, element);
}

/* The room says what may be. */
static uint64_t swap_allocatable(const struct nvs_device *device)
{
	(void)device;
	return UINT64_MAX;
}

/* `fixed`: what the account has, which is all but what moves. */
static uint64_t swap_free_bytes(struct nvs_device *device, uint64_t fixed, uint64_t driver_free)
{
	uint64_t capacity = nvs_room_capacity(device), used = nvs_room_footprint(device);
	uint64_t most = device->total_bytes;

	if (capacity == UINT64_MAX) {
		used += fixed;
		most = most > used ? most - used : 0;
		return driver_free < most ? driver_free : most;
	}
	if (capacity > most)
		capacity = most;
	return capacity > used ? capacity - used : 0;
}

const struct nvs_memory_backend nvs_memory_swap = {
	.name = "swap",
	.wire = NVS_BACKEND_NATIVE, /* for schedulers that know nothing of memory that swaps */
	.alloc = swap_alloc,
	.alloc_pitch = swap_alloc_pitch,
	.allocatable = swap_allocatable,
	.free_bytes = swap_free_bytes,
	.swaps = true,
};
