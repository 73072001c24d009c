/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of stream-ordered memory. While a stream is being captured, allocating and freeing make
 * nodes of a graph and take nothing. No state.
 */
#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "gate/pass.h"
#include "gate/streams.h"
#include "memory/account.h"
#include "memory/memory.h"
#include "memory/pools.h"
#include "memory/room.h"
#include "memory/swap/allocations.h"
#include "memory/swap/exports.h"
#include "ties/tied.h"

static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return nvs_captures_going_on() &&
	       NVS_CALL(cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUmemoryPool pool_of(const struct nvs_device *device)
{
	CUmemoryPool pool = NULL;

	return NVS_CALL(cuDeviceGetMemPool, &pool, device->ordinal) == CUDA_SUCCESS ? pool : NULL;
}

static CUcontext context_of(CUstream stream)
{
	CUcontext context = NULL;

	return NVS_CALL(cuStreamGetCtx, stream, &context) == CUDA_SUCCESS ? context : NULL;
}

static void enter(struct nvs_device *device, CUdeviceptr pointer, size_t bytes, CUmemoryPool handle,
		  CUstream stream)
{
	struct nvs_pool *pool = nvs_pool_use(handle, pointer);
	struct nvs_entry entry = {
		.kind = NVS_ENTRY_POINTER,
		.device = device->ordinal,
		.key = pointer,
		.bytes = bytes,
		.context = context_of(stream),
	};

	if (pool)
		nvs_pool_charge(pool, &entry, device, bytes);
	else if (!handle)
		nvs_memory_charge(&entry, bytes); /* the driver does not name the pool */
	else
		nvs_memory_release(device, bytes); /* of host memory */
}

/* Whether the account has to do with the allocation; otherwise the driver's answer is all. */
static bool is_counted(const struct nvs_device *device, const CUdeviceptr *pointer, CUstream stream)
{
	if (!device || !pointer)
		return false;
	if (!is_captured(stream))
		return true;
	atomic_store(&nvs_memory_graphs_allocate, true);
	return false;
}

/* `handle`: NULL for the present pool of the stream's device. */
#define ALLOCATE(stream, handle, call)                                                         \
	struct nvs_device *device = nvs_device_of(stream);                                     \
	struct nvs_room_given given = nvs_room_given_fixed(bytesize);                          \
	CUresult result;                                                                       \
                                                                                               \
	if (!is_counted(device, dptr, stream))                                                 \
		return call;                                                                   \
	if (!nvs_memory_reserve(device, bytesize))                                             \
		return nvs_lost_refusal(device);                                               \
	do {                                                                                   \
		result = call;                                                                 \
	} while (nvs_memory_may_come(device, result, &given));                                 \
	if (result == CUDA_SUCCESS)                                                            \
		enter(device, *dptr, bytesize, (handle) ? (handle) : pool_of(device), stream); \
	else                                                                                   \
		nvs_memory_release(device, given.bytes);                                       \
	return result

NVS_HOOK(cuMemAllocAsync, CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	ALLOCATE(hStream, (CUmemoryPool)NULL, NVS_CALL(cuMemAllocAsync, dptr, bytesize, hStream));
}

NVS_HOOK(cuMemAllocAsync_ptsz, CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	ALLOCATE(NVS_PER_THREAD(hStream), (CUmemoryPool)NULL,
		 NVS_CALL(cuMemAllocAsync_ptsz, dptr, bytesize, hStream));
}

NVS_HOOK(cuMemAllocFromPoolAsync, CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool,
	 CUstream hStream)
{
	ALLOCATE(hStream, pool, NVS_CALL(cuMemAllocFromPoolAsync, dptr, bytesize, pool, hStream));
}

NVS_HOOK(cuMemAllocFromPoolAsync_ptsz, CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool,
	 CUstream hStream)
{
	ALLOCATE(NVS_PER_THREAD(hStream), pool,
		 NVS_CALL(cuMemAllocFromPoolAsync_ptsz, dptr, bytesize, pool, hStream));
}

/* Plain memory, which the driver lets be freed like this as well; its own waits for all work too.
 */
#define FREE(symbol, stream)                                               \
	NVS_HOOK(symbol, CUdeviceptr_v2 dptr, CUstream hStream)            \
	{                                                                  \
		struct nvs_tied *ties;                                     \
		struct nvs_entry entry;                                    \
		CUresult result;                                           \
		bool known;                                                \
                                                                           \
		/* A node; the driver takes memory of graphs only. */      \
		if (is_captured(stream))                                   \
			return NVS_CALL(symbol, dptr, hStream);            \
		ties = nvs_tied_take(NVS_TIED_GIVEN_MEMORY, dptr, true);   \
		known = nvs_account_take(NVS_ENTRY_POINTER, dptr, &entry); \
		if (nvs_allocation_free(dptr, &result))                    \
			nvs_exports_check();                               \
		else                                                       \
			result = NVS_CALL(symbol, dptr, hStream);          \
		nvs_tied_end(ties, result == CUDA_SUCCESS);                \
		return nvs_memory_freed(result, known, &entry);            \
	}

FREE(cuMemFreeAsync, hStream)
FREE(cuMemFreeAsync_ptsz, NVS_PER_THREAD(hStream))

NVS_HOOK(cuMemPoolSetAttribute, CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	CUresult result = NVS_CALL(cuMemPoolSetAttribute, pool, attr, value);

	if (result == CUDA_SUCCESS && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		nvs_pool_changed(pool);
	return result;
}

NVS_HOOK(cuMemPoolTrimTo, CUmemoryPool pool, size_t minBytesToKeep)
{
	CUresult result = NVS_CALL(cuMemPoolTrimTo, pool, minBytesToKeep);

	if (result == CUDA_SUCCESS)
		nvs_pool_changed(pool);
	return result;
}

/* The record goes first: the driver may give the handle to another pool at once. */
NVS_HOOK(cuMemPoolDestroy, CUmemoryPool pool)
{
	nvs_pool_destroyed(pool);
	return NVS_CALL(cuMemPoolDestroy, pool);
}
