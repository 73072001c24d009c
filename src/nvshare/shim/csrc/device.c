/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the records of the devices that this process uses, and answers which one a stream belongs
 * to.
 *
 * nvs_use_lock protects the creation of records; nvs_ready publishes them. A record is never freed.
 * The driver is not called while the lock is held.
 */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "capture.h"
#include "client.h"
#include "contexts.h"
#include "driver.h"
#include "fork.h"
#include "marks.h"
#include "memory.h"
#include "pass.h"

_Atomic(struct nvs_device *) nvs_device_only;

static pthread_mutex_t nvs_use_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvs_device nvs_devices[NVS_MAX_DEVICES];
static _Atomic uint64_t nvs_ready; /* a bit for every record in use */
static bool nvs_fork_handled;
static _Atomic uint32_t nvs_handle_generation;

struct nvs_device *nvs_device_known(int ordinal)
{
	uint64_t ready = atomic_load_explicit(&nvs_ready, memory_order_acquire);

	return ordinal >= 0 && ordinal < NVS_MAX_DEVICES && ready >> ordinal & 1
		       ? &nvs_devices[ordinal]
		       : NULL;
}

/* The child has one thread, no connection and no lock; what it asks for next is all its own. */
static void nvs_device_forked(void)
{
	nvs_use_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&nvs_ready, 0);
	atomic_store(&nvs_device_only, NULL);
	memset(nvs_devices, 0, sizeof(nvs_devices));
	nvs_device_handles_changed();
	nvs_marks_forked();
	nvs_capture_forked();
	nvs_contexts_forked();
	nvs_memory_forked();
}

static void nvs_device_start(const struct nvs_device *filled)
{
	struct nvs_device *device = &nvs_devices[filled->ordinal];
	uint64_t ready = atomic_load(&nvs_ready), bit = 1ULL << filled->ordinal;

	if (!nvs_fork_handled)
		nvs_fork_handled = nvs_at_fork(NULL, NULL, nvs_device_forked);
	nvs_marks_prepare();
	*device = *filled;
	nvs_client_start(device);
	atomic_store(&nvs_device_only, ready ? NULL : device);
	atomic_store_explicit(&nvs_ready, ready | bit, memory_order_release);
}

struct nvs_device *nvs_device_use(int ordinal)
{
	struct nvs_device filled = { .ordinal = ordinal };
	CUuuid uuid;
	size_t bytes;
	int saved = errno;

	if (nvs_device_known(ordinal) || ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return nvs_device_known(ordinal);
	if (NVS_CALL(cuDeviceGetUuid_v2, &uuid, ordinal) != CUDA_SUCCESS &&
	    NVS_CALL(cuDeviceGetUuid, &uuid, ordinal) != CUDA_SUCCESS)
		return NULL;
	if (NVS_CALL(cuDeviceTotalMem_v2, &bytes, ordinal) != CUDA_SUCCESS)
		return NULL;
	memcpy(filled.uuid, uuid.bytes, sizeof(filled.uuid));
	filled.total_bytes = bytes;
	pthread_mutex_lock(&nvs_use_lock);
	if (!nvs_device_known(ordinal))
		nvs_device_start(&filled);
	pthread_mutex_unlock(&nvs_use_lock);
	errno = saved;
	return nvs_device_known(ordinal);
}

static struct nvs_device *nvs_device_current(void)
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
		device = nvs_device_current();
		NVS_CALL(cuCtxPopCurrent_v2, &popped);
	}
	return device;
}

static struct nvs_device *nvs_device_ask(CUstream stream)
{
	CUcontext context = NULL;

	if (NVS_CALL(cuStreamGetCtx, stream, &context) != CUDA_SUCCESS)
		return nvs_device_current();
	return nvs_device_of_context(context);
}

void nvs_device_handles_changed(void)
{
	atomic_fetch_add(&nvs_handle_generation, 1);
}

struct nvs_device *nvs_device_of(void *stream)
{
	struct nvs_device *device = atomic_load_explicit(&nvs_device_only, memory_order_acquire);
	uint32_t generation = atomic_load(&nvs_handle_generation);
	struct nvs_mark *mark;
	unsigned int slot;

	if (device)
		return device;
	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return nvs_device_current();
	mark = nvs_mark_mine;
	slot = (unsigned int)(((uintptr_t)stream >> 4) * 0x9e3779b97f4a7c15ULL >> 60) %
	       NVS_STREAM_CACHE;
	if (mark && mark->streams[slot].stream == stream &&
	    mark->streams[slot].generation == generation)
		return mark->streams[slot].device;
	device = nvs_device_ask(stream);
	if (mark && device) {
		mark->streams[slot].stream = stream;
		mark->streams[slot].generation = generation;
		mark->streams[slot].device = device;
	}
	return device;
}
