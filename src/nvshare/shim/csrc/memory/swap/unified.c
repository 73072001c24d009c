/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns which chunks stand for which managed allocation. `lock` protects the table and is held for
 * look-ups only; an allocation that was taken out of it is the taker's.
 */
#include "memory/swap/unified.h"

#include <pthread.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "memory/footprint.h"
#include "memory/room.h"
#include "memory/swap/chunks.h"
#include "memory/swap/spans.h"

struct unified {
	CUcontext context;
	size_t count;
	struct nvs_chunk *chunks[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvs_spans allocations; /* of: struct unified */

uint64_t nvs_unified_moving(const struct nvs_device *device, size_t bytes, unsigned int flags)
{
	int prefetches = 0;

	if (flags != CU_MEM_ATTACH_GLOBAL)
		return 0;
	NVS_CALL(cuDeviceGetAttribute, &prefetches, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
		 device->ordinal);
	return prefetches ? bytes - bytes % NVS_GRANULE_BYTES : 0;
}

static void end_chunks(struct unified *unified)
{
	while (unified->count) {
		struct nvs_chunk *chunk = unified->chunks[--unified->count];

		nvs_chunk_enter(chunk);
		nvs_chunk_end(chunk);
	}
	free(unified);
}

/* The chunk of these addresses, which are there without any call of ours: so mapping can't fail. */
static CUresult add_chunk(struct unified *unified, struct nvs_device *device, CUdeviceptr address,
			  uint64_t bytes, bool resident)
{
	CUmemAllocationProp_v1 prop = {
		.type = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal },
	};
	struct nvs_access access = { .read_write = 1ULL << device->ordinal };
	struct nvs_chunk *chunk;
	CUresult result = nvs_chunk_create(device, bytes, &prop, resident, &chunk);

	if (result != CUDA_SUCCESS)
		return result;
	nvs_chunk_map(chunk, address, false);
	nvs_chunk_set_access(chunk, address, &access);
	unified->chunks[unified->count++] = chunk;
	nvs_chunk_leave(chunk);
	return CUDA_SUCCESS;
}

/* False: no host memory. */
static bool enter(struct unified *unified, CUdeviceptr pointer, uint64_t bytes)
{
	bool entered;

	pthread_mutex_lock(&lock);
	entered = nvs_spans_add(&allocations, pointer, bytes, unified);
	pthread_mutex_unlock(&lock);
	return entered;
}

/* Makes the chunks of what the driver has allocated, for which there is room. */
static CUresult note(struct nvs_device *device, CUdeviceptr pointer, uint64_t moving, bool resident)
{
	struct unified *unified = malloc(sizeof(*unified) + (moving / NVS_CHUNK_BYTES + 1) *
								    sizeof(struct nvs_chunk *));
	CUresult result = unified ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t made = 0;

	if (unified)
		*unified = (struct unified){ 0 };
	while (result == CUDA_SUCCESS && made < moving) {
		uint64_t bytes = moving - made < NVS_CHUNK_BYTES ? moving - made : NVS_CHUNK_BYTES;

		result = add_chunk(unified, device, pointer + made, bytes, resident);
		made += result == CUDA_SUCCESS ? bytes : 0;
	}
	if (result == CUDA_SUCCESS) {
		NVS_CALL(cuCtxGetCurrent, &unified->context);
		if (enter(unified, pointer, moving))
			return result;
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	nvs_room_give(device, moving - made, resident ? moving - made : 0);
	if (unified)
		end_chunks(unified);
	return result;
}

CUresult nvs_unified_alloc(struct nvs_device *device, CUdeviceptr *pointer, size_t bytes,
			   unsigned int flags, uint64_t moving)
{
	enum nvs_room given = nvs_footprint_possible(device, moving) ? nvs_room_ask(device, moving)
								     : NVS_ROOM_REFUSED;
	CUdeviceptr made;
	CUresult result;

	if (given == NVS_ROOM_REFUSED)
		return nvs_lost_refusal(device);
	result = NVS_CALL(cuMemAllocManaged, &made, bytes, flags);
	if (result != CUDA_SUCCESS) {
		nvs_room_give(device, moving, given == NVS_ROOM_IN ? moving : 0);
		return result;
	}
	result = note(device, made, moving, given == NVS_ROOM_IN);
	if (result == CUDA_SUCCESS)
		*pointer = made;
	else
		NVS_CALL(cuMemFree_v2, made);
	return result;
}

/* Takes the one that begins there, or (NULL: not that) one of the context, out of the table. */
static struct unified *take(const CUdeviceptr *pointer, CUcontext context, uint64_t *bytes)
{
	struct unified *taken = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; !taken && i < allocations.count; i++) {
		struct nvs_span *span = &allocations.all[i];
		struct unified *unified = span->of;

		if (pointer ? span->start != *pointer : unified->context != context)
			continue;
		taken = unified;
		*bytes = span->bytes;
		nvs_spans_remove(&allocations, span);
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

CUresult nvs_unified_free(CUdeviceptr pointer)
{
	uint64_t bytes;
	struct unified *unified = take(&pointer, NULL, &bytes);
	CUresult result;

	/* The mover must not be asking for what is gone. */
	for (size_t i = 0; unified && i < unified->count; i++)
		nvs_chunk_enter(unified->chunks[i]);
	result = NVS_CALL(cuMemFree_v2, pointer);
	for (size_t i = 0; unified && i < unified->count; i++)
		if (result == CUDA_SUCCESS)
			nvs_chunk_end(unified->chunks[i]);
		else
			nvs_chunk_leave(unified->chunks[i]);
	/* There was room for it in the table. */
	if (unified && result != CUDA_SUCCESS)
		enter(unified, pointer, bytes);
	else
		free(unified);
	return result;
}

void nvs_unified_context_gone(CUcontext context)
{
	struct unified *unified;
	uint64_t bytes;

	while ((unified = take(NULL, context, &bytes)))
		end_chunks(unified);
}

void nvs_unified_forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	allocations = (struct nvs_spans){ 0 };
}
