/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers which device a stream, a context or a pointer belongs to. With several devices in use the
 * driver has to be asked, so each thread's mark remembers the answers for its streams; nobody else
 * reads them. `ended` counts the streams that ended, and makes all of them forget. No lock.
 */
#define _GNU_SOURCE
#include "gate/streams.h"

#include <stdatomic.h>
#include <stdint.h>

#include "driver/driver.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/marks.h"

static _Atomic uint32_t ended;

static struct nvs_device *current_device(void)
{
	CUdevice ordinal;

	return NVS_CALL(cuCtxGetDevice, &ordinal) == CUDA_SUCCESS ? nvs_device_use(ordinal) : NULL;
}

struct nvs_device *nvs_device_of_context(void *context)
{
	int ordinal = nvs_context_ordinal(context);
	struct nvs_device *device = NULL;
	CUcontext popped;

	if (ordinal >= 0)
		return nvs_device_use(ordinal);
	if (context && NVS_CALL(cuCtxPushCurrent_v2, (CUcontext)context) == CUDA_SUCCESS) {
		device = current_device();
		NVS_CALL(cuCtxPopCurrent_v2, &popped);
	}
	return device;
}

static struct nvs_device *ask_driver(CUstream stream)
{
	CUcontext context = NULL;

	if (NVS_CALL(cuStreamGetCtx, stream, &context) != CUDA_SUCCESS)
		return current_device();
	return nvs_device_of_context(context);
}

struct nvs_device *nvs_device_of_pointer(CUdeviceptr pointer)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	unsigned int type = 0;
	int ordinal = -1;
	void *data[] = { &type, &ordinal };

	/* Pinned memory of the host has a device as well: the one where it was allocated. */
	return NVS_CALL(cuPointerGetAttributes, 2, attributes, data, pointer) == CUDA_SUCCESS &&
			       type == CU_MEMORYTYPE_DEVICE
		       ? nvs_device_use(ordinal)
		       : NULL;
}

void nvs_stream_ended(void)
{
	atomic_fetch_add(&ended, 1);
}

/*
 * With a context its streams end as well. The two counters only grow, so their sum is one that
 * changes with each of them.
 */
static uint32_t handle_generation(void)
{
	return atomic_load(&ended) + nvs_context_generation();
}

struct nvs_device *nvs_device_of(void *stream)
{
	struct nvs_device *device = atomic_load_explicit(&nvs_device_only, memory_order_acquire);
	struct nvs_mark *mark;
	uint32_t generation;
	unsigned int slot;

	if (device)
		return device;
	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return current_device();
	mark = nvs_mark_mine;
	/* Before the driver is asked: a stream that ends meanwhile must make this answer old. */
	generation = handle_generation();
	slot = (unsigned int)(((uintptr_t)stream >> 4) * 0x9e3779b97f4a7c15ULL >> 60) %
	       NVS_STREAM_CACHE;
	if (mark && mark->streams[slot].stream == stream &&
	    mark->streams[slot].generation == generation)
		return mark->streams[slot].device;
	device = ask_driver(stream);
	if (mark && device) {
		mark->streams[slot].stream = stream;
		mark->streams[slot].generation = generation;
		mark->streams[slot].device = device;
	}
	return device;
}
