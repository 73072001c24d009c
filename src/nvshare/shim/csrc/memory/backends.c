/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backends. `native`: memory stays what the driver makes it and is only counted. `managed`:
 * plain device memory becomes unified memory, which the driver moves between device and host by
 * page faults, so that several processes together may have more than the device; one process alone
 * may not, unless it was told so: it would thrash even with the lock. `swap`: plain memory is made
 * of chunks that move to host memory and back (swap/allocations.h); how much there may be is the
 * room's business. No state, no lock.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/allocations.h"
#include "process/config.h"

#define PITCH_BYTES 512u
#define RESERVE_BYTES (1536ull << 20) /* for contexts and modules, which do not move */

static uint64_t unlimited(const struct nvs_device *device)
{
	(void)device;
	return UINT64_MAX;
}

static CUresult native_alloc(CUdeviceptr *pointer, size_t bytes)
{
	return NVS_CALL(cuMemAlloc_v2, pointer, bytes);
}

static CUresult native_alloc_pitch(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
				   unsigned int element)
{
	return NVS_CALL(cuMemAllocPitch_v2, pointer, pitch, width, height, element);
}

static CUresult native_free(CUdeviceptr pointer)
{
	return NVS_CALL(cuMemFree_v2, pointer);
}

static uint64_t native_free_bytes(struct nvs_device *device, uint64_t footprint,
				  uint64_t driver_free)
{
	uint64_t left = device->total_bytes > footprint ? device->total_bytes - footprint : 0;

	return driver_free < left ? driver_free : left;
}

const struct nvs_memory_backend nvs_memory_native = {
	.name = "native",
	.wire = NVS_BACKEND_NATIVE,
	.alloc = native_alloc,
	.alloc_pitch = native_alloc_pitch,
	.free = native_free,
	.allocatable = unlimited, /* the driver knows best */
	.free_bytes = native_free_bytes,
	.disguised = false,
};

/* cuMemAllocPitch for backends that have only one way to allocate: rows as the driver aligns them.
 */
static CUresult alloc_rows(CUresult (*alloc)(CUdeviceptr *pointer, size_t bytes),
			   CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
			   unsigned int element)
{
	size_t row, bytes;
	CUresult result;

	if (element != 4 && element != 8 && element != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_add_overflow(width, PITCH_BYTES - 1, &row))
		return CUDA_ERROR_OUT_OF_MEMORY;
	row -= row % PITCH_BYTES;
	if (__builtin_mul_overflow(row, height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = alloc(pointer, bytes);
	if (result == CUDA_SUCCESS)
		*pitch = row;
	return result;
}

static CUresult managed_alloc(CUdeviceptr *pointer, size_t bytes)
{
	return NVS_CALL(cuMemAllocManaged, pointer, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult managed_alloc_pitch(CUdeviceptr *pointer, size_t *pitch, size_t width,
				    size_t height, unsigned int element)
{
	return alloc_rows(managed_alloc, pointer, pitch, width, height, element);
}

static CUresult managed_free(CUdeviceptr pointer)
{
	return NVS_CALL(cuMemFree_v2, pointer);
}

static uint64_t managed_capacity(const struct nvs_device *device)
{
	uint64_t tenth = device->total_bytes / 10;

	return device->total_bytes - (tenth < RESERVE_BYTES ? tenth : RESERVE_BYTES);
}

static uint64_t managed_allocatable(const struct nvs_device *device)
{
	return nvs_config()->single_oversub ? UINT64_MAX : managed_capacity(device);
}

static uint64_t managed_free_bytes(struct nvs_device *device, uint64_t footprint,
				   uint64_t driver_free)
{
	uint64_t capacity =
		nvs_config()->single_oversub ? device->total_bytes : managed_capacity(device);

	(void)driver_free; /* what others use is moved out when it is needed */
	return capacity > footprint ? capacity - footprint : 0;
}

const struct nvs_memory_backend nvs_memory_managed = {
	.name = "managed",
	.wire = NVS_BACKEND_MANAGED,
	.alloc = managed_alloc,
	.alloc_pitch = managed_alloc_pitch,
	.free = managed_free,
	.allocatable = managed_allocatable,
	.free_bytes = managed_free_bytes,
	.disguised = true,
};

static CUresult swap_alloc(CUdeviceptr *pointer, size_t bytes)
{
	struct nvs_device *device = nvs_device_of(NULL);

	return device ? nvs_allocation_make(device, bytes, pointer) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult swap_alloc_pitch(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
				 unsigned int element)
{
	return alloc_rows(swap_alloc, pointer, pitch, width, height, element);
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
	.allocatable = unlimited, /* the room says what may be */
	.free_bytes = swap_free_bytes,
	.swaps = true,
};
