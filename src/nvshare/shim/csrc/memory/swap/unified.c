/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns which chunks stand for which managed allocation. `lock` protects the table and is held for
 * look-ups only; an allocation that was taken out of it is the taker's.
 */
#include "memory/swap/unified.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/swap/chunks.h"
#include "memory/swap/runs.h"
#include "memory/swap/spans.h"
#include "process/mutex.h"

struct unified {
	CUcontext context;
	struct nvs_run *run;
};

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_UNIFIED);
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

static void end(struct unified *unified)
{
	nvs_run_end(unified->run);
	free(unified);
}

/* The chunk of these addresses, which are there without any call of ours: so mapping can't fail. */
static CUresult place(struct nvs_chunk *chunk, CUdeviceptr address)
{
	struct nvs_access access = { .read_write = 1ULL << chunk->device->ordinal };

	nvs_chunk_map(chunk, address, false);
	return nvs_chunk_set_access(chunk, address, &access);
}

/* False: no host memory. */
static bool enter(struct unified *unified, CUdeviceptr pointer, uint64_t bytes)
{
	NVS_HOLD(&lock);
	return nvs_spans_add(&allocations, pointer, bytes, unified);
}

/* Makes the chunks of what the driver has allocated; the run is the record's, or ended. */
static CUresult note(struct nvs_run *run, CUdeviceptr pointer, uint64_t moving)
{
	CUmemAllocationProp_v1 prop = {
		.type = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, run->device->ordinal },
	};
	struct unified *unified = malloc(sizeof(*unified));
	CUresult result = nvs_run_fill(run, &prop, pointer, place);

	if (result == CUDA_SUCCESS && unified) {
		*unified = (struct unified){ .run = run };
		NVS_CALL(cuCtxGetCurrent, &unified->context);
		if (enter(unified, pointer, moving))
			return result;
	}
	nvs_run_end(run);
	free(unified);
	return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

CUresult nvs_unified_alloc(struct nvs_device *device, CUdeviceptr *pointer, size_t bytes,
			   unsigned int flags, uint64_t moving)
{
	struct nvs_run *run;
	CUdeviceptr made;
	CUresult result = nvs_run_begin(device, moving, NVS_CHUNK_BYTES, &run);

	if (result != CUDA_SUCCESS)
		return result;
	result = NVS_CALL(cuMemAllocManaged, &made, bytes, flags);
	if (result != CUDA_SUCCESS) {
		nvs_run_end(run);
		return result;
	}
	result = note(run, made, moving);
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

	NVS_HOLD(&lock);
	for (size_t i = 0; !taken && i < allocations.count; i++) {
		struct nvs_span *span = &allocations.all[i];
		struct unified *unified = span->of;

		if (pointer ? span->start != *pointer : unified->context != context)
			continue;
		taken = unified;
		*bytes = span->bytes;
		nvs_spans_remove(&allocations, span);
	}
	return taken;
}

/* The mover must not be asking for what is gone. */
static void enter_all(const struct nvs_run *run)
{
	for (size_t i = 0; i < run->count; i++)
		nvs_chunk_enter(run->chunks[i]);
}

static void leave_all(const struct nvs_run *run)
{
	for (size_t i = 0; i < run->count; i++)
		nvs_chunk_leave(run->chunks[i]);
}

CUresult nvs_unified_free(CUdeviceptr pointer)
{
	uint64_t bytes;
	struct unified *unified = take(&pointer, NULL, &bytes);
	CUresult result;

	if (!unified)
		return NVS_CALL(cuMemFree_v2, pointer);
	enter_all(unified->run);
	result = NVS_CALL(cuMemFree_v2, pointer);
	if (result == CUDA_SUCCESS) {
		for (size_t i = unified->run->count; i-- > 0;)
			nvs_chunk_end(unified->run->chunks[i]);
		unified->run->count = 0;
		end(unified);
		return result;
	}
	leave_all(unified->run);
	/* There was room for it in the table. */
	enter(unified, pointer, bytes);
	return result;
}

void nvs_unified_context_gone(CUcontext context)
{
	struct unified *unified;
	uint64_t bytes;

	while ((unified = take(NULL, context, &bytes)))
		end(unified);
}

void nvs_unified_forked(void)
{
	nvs_mutex_forked(&lock);
	allocations = (struct nvs_spans){ 0 };
}
