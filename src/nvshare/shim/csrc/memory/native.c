/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend `native`: memory stays what the driver makes it and is only counted. No state, no
 * lock.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "memory/memory.h"

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

/* The driver knows best. */
static uint64_t native_allocatable(const struct nvs_device *device)
{
	(void)device;
	return UINT64_MAX;
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
	.allocatable = native_allocatable,
	.free_bytes = native_free_bytes,
	.disguised = false,
};
