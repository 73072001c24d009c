/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend `managed`: plain device memory becomes unified memory, which the driver moves between
 * device and host by page faults, so that several processes together may have more than the device.
 * One process alone may not, unless it was told so: it would thrash even with the lock. No state,
 * no lock.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "memory/memory.h"
#include "memory/pitch.h"
#include "process/config.h"

#define RESERVE_BYTES (1536ull << 20) /* for contexts and modules, which do not move */

static CUresult managed_alloc(CUdeviceptr *pointer, size_t bytes)
{
	return NVS_CALL(cuMemAllocManaged, pointer, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult managed_alloc_pitch(CUdeviceptr *pointer, size_t *pitch, size_t width,
				    size_t height, unsigned int element)
{
	return nvs_pitch_alloc(managed_alloc, pointer, pitch, width, height, element);
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
