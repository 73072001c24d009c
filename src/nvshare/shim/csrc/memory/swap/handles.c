/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the handles that are ours, by their numbers, which only grow. `lock` protects the table and
 * the counts of each handle; it is held for look-ups only. A handle's chunks end with the last who
 * owns or holds it.
 */
#include "memory/swap/handles.h"

#include <stdlib.h>

#include "memory/swap/chunk.h"
#include "memory/swap/runs.h"
#include "memory/swap/spans.h"
#include "process/mutex.h"

/*
 * The driver's handles are addresses of its own records or small numbers. No address has both of
 * its two highest bits set and the next one not.
 */
#define OURS (0xc0deull << 48)

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_HANDLES);
static struct nvs_spans handles; /* of one number each */
static uint64_t last;

/* Gives the handle its number. False: no host memory. */
static bool enter(struct nvs_handle *handle)
{
	NVS_HOLD(&lock);
	handle->number = OURS + ++last;
	return nvs_spans_add(&handles, handle->number, 1, handle);
}

static void end(struct nvs_handle *handle)
{
	nvs_run_end(handle->run);
	free(handle);
}

/* With the lock held; true: nobody has it any more, it is the caller's to end. */
static bool leave_if_done(const struct nvs_handle *handle)
{
	if (handle->owned || handle->holds)
		return false;
	nvs_spans_remove(&handles, nvs_spans_at(&handles, handle->number));
	return true;
}

bool nvs_handle_may_move(const CUmemAllocationProp_v1 *prop, size_t bytes, unsigned long long flags)
{
	/* Tiles of sparse arrays are mapped in stream order, by handles that we don't see there. */
	return bytes && bytes % NVS_GRANULE_BYTES == 0 && !flags &&
	       prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       !(prop->flags.usage & CU_MEM_CREATE_USAGE_TILE_POOL);
}

/* What is exported is one thing for the driver, and so is what it compresses. */
static uint64_t chunk_bytes(const CUmemAllocationProp_v1 *prop, uint64_t bytes)
{
	bool whole = prop->handle_types != CU_MEM_HANDLE_TYPE_NONE || prop->flags.compression ||
		     bytes < NVS_CHUNK_BYTES;

	return whole ? bytes : NVS_CHUNK_BYTES;
}

CUresult nvs_handle_create(struct nvs_device *device, size_t bytes,
			   const CUmemAllocationProp_v1 *prop, CUmemGenericAllocationHandle *number)
{
	struct nvs_handle *handle = malloc(sizeof(*handle));
	CUresult result;

	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*handle =
		(struct nvs_handle){ .device = device, .bytes = bytes, .prop = *prop, .owned = 1 };
	result = nvs_run_begin(device, bytes, chunk_bytes(prop, bytes), &handle->run);
	if (result != CUDA_SUCCESS) {
		free(handle);
		return result;
	}
	result = nvs_run_fill(handle->run, prop, 0, NULL);
	if (result == CUDA_SUCCESS && !enter(handle))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		*number = handle->number;
	else
		end(handle);
	return result;
}

bool nvs_handle_has_form(CUmemGenericAllocationHandle number)
{
	return number >> 48 == OURS >> 48;
}

struct nvs_handle *nvs_handle_get(CUmemGenericAllocationHandle number)
{
	const struct nvs_span *span;
	struct nvs_handle *handle;

	if (!nvs_handle_has_form(number))
		return NULL;
	NVS_HOLD(&lock);
	span = nvs_spans_at(&handles, number);
	handle = span ? span->of : NULL;
	if (handle)
		handle->holds++;
	return handle;
}

void nvs_handle_hold(struct nvs_handle *handle)
{
	NVS_HOLD(&lock);
	handle->holds++;
}

void nvs_handle_put(struct nvs_handle *handle)
{
	bool done;

	nvs_mutex_lock(&lock);
	handle->holds--;
	done = leave_if_done(handle);
	nvs_mutex_unlock(&lock);
	if (done)
		end(handle);
}

void nvs_handle_own(struct nvs_handle *handle)
{
	NVS_HOLD(&lock);
	handle->owned++;
}

bool nvs_handle_disown(struct nvs_handle *handle)
{
	bool owned;

	NVS_HOLD(&lock);
	owned = handle->owned > 0;
	handle->owned -= owned;
	return owned;
}

void nvs_handles_forked(void)
{
	nvs_mutex_forked(&lock);
	handles = (struct nvs_spans){ 0 };
}
