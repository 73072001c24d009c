/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of plain device memory and of arrays. Each call asks the account first, then the backend or
 * the driver, and enters what it got in the book. A free takes the entry out first, so that of two
 * frees one finds it, and puts it back if the driver refuses. What is not in the book is the
 * driver's alone. No state.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "gate/streams.h"
#include "memory/account.h"
#include "memory/arrays.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/allocations.h"
#include "memory/swap/exports.h"
#include "memory/swap/unified.h"
#include "ties/tied.h"

static CUcontext current_context(void)
{
	CUcontext context = NULL;

	return NVS_CALL(cuCtxGetCurrent, &context) == CUDA_SUCCESS ? context : NULL;
}

/* After the driver's answer: enters the allocation in the book, or gives its reservation back. */
static CUresult commit(CUresult result, struct nvs_device *device, int kind, uint64_t key,
		       uint64_t bytes, uint64_t reserved, bool plain)
{
	struct nvs_entry entry = {
		.kind = kind, .device = device->ordinal, .key = key, .bytes = bytes, .plain = plain
	};

	if (result != CUDA_SUCCESS) {
		nvs_memory_release(device, reserved);
		return result;
	}
	entry.context = current_context();
	nvs_memory_charge(&entry, reserved);
	return result;
}

/* From before CUDA 3.2: the pointers of that time have 32 bits, which only the driver can make. */
NVS_HOOK(cuMemAlloc, CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	struct nvs_device *device = nvs_device_of(NULL);
	CUresult result;

	if (!device || !dptr || !bytesize)
		return NVS_CALL(cuMemAlloc, dptr, bytesize);
	if (!nvs_memory_reserve(device, bytesize))
		return nvs_lost_refusal(device);
	result = NVS_CALL(cuMemAlloc, dptr, bytesize);
	return commit(result, device, NVS_ENTRY_POINTER, result == CUDA_SUCCESS ? *dptr : 0,
		      bytesize, bytesize, false);
}

/* What a dead context answers to all but calls for virtual memory; CUDA_SUCCESS: it is alive. */
static CUresult death(const struct nvs_device *device)
{
	CUresult result = CUDA_SUCCESS;
	size_t unused;

	if (nvs_lost_maybe(device))
		result = NVS_CALL(cuMemGetInfo_v2, &unused, &unused);
	return nvs_final_name(result) ? result : CUDA_SUCCESS;
}

/* What moves is no part of the account: it has its own, with the room that it was given. */
static CUresult alloc_moving(struct nvs_device *device, CUdeviceptr *dptr, size_t bytes)
{
	CUresult result = death(device);
	CUdeviceptr pointer;

	if (result == CUDA_SUCCESS)
		result = nvs_allocation_make(device, bytes, &pointer);
	if (result == CUDA_SUCCESS)
		*dptr = pointer;
	return result;
}

NVS_HOOK(cuMemAlloc_v2, CUdeviceptr_v2 *dptr, size_t bytesize)
{
	struct nvs_device *device = nvs_device_of(NULL);
	CUdeviceptr pointer = 0;
	CUresult result;

	if (!device || !dptr || !bytesize)
		return NVS_CALL(cuMemAlloc_v2, dptr, bytesize);
	if (nvs_memory_swaps(device))
		return alloc_moving(device, dptr, bytesize);
	if (!nvs_memory_reserve(device, bytesize))
		return nvs_lost_refusal(device);
	result = nvs_memory_of(device)->alloc(device, bytesize, &pointer);
	if (result == CUDA_SUCCESS)
		*dptr = pointer;
	return commit(result, device, NVS_ENTRY_POINTER, pointer, bytesize, bytesize, true);
}

NVS_HOOK(cuMemAllocPitch, CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
	 unsigned int Height, unsigned int ElementSizeBytes)
{
	uint64_t bytes = (uint64_t)WidthInBytes * Height, charged = 0;
	struct nvs_device *device = nvs_device_of(NULL);
	CUresult result;

	if (!device || !dptr || !pPitch || !bytes)
		return NVS_CALL(cuMemAllocPitch, dptr, pPitch, WidthInBytes, Height,
				ElementSizeBytes);
	if (!nvs_memory_reserve(device, bytes))
		return nvs_lost_refusal(device);
	result = NVS_CALL(cuMemAllocPitch, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
	if (result == CUDA_SUCCESS)
		charged = (uint64_t)*pPitch * Height;
	return commit(result, device, NVS_ENTRY_POINTER, result == CUDA_SUCCESS ? *dptr : 0,
		      charged, bytes, false);
}

NVS_HOOK(cuMemAllocPitch_v2, CUdeviceptr_v2 *dptr, size_t *pPitch, size_t WidthInBytes,
	 size_t Height, unsigned int ElementSizeBytes)
{
	struct nvs_device *device = nvs_device_of(NULL);
	CUdeviceptr pointer = 0;
	size_t bytes, pitch = 0;
	CUresult result;
	bool swaps;

	if (!device || !dptr || !pPitch || !WidthInBytes || !Height ||
	    __builtin_mul_overflow(WidthInBytes, Height, &bytes))
		return NVS_CALL(cuMemAllocPitch_v2, dptr, pPitch, WidthInBytes, Height,
				ElementSizeBytes);
	swaps = nvs_memory_swaps(device);
	if (!swaps && !nvs_memory_reserve(device, bytes))
		return nvs_lost_refusal(device);
	if (swaps && (result = death(device)) != CUDA_SUCCESS)
		return result;
	result = nvs_memory_alloc_pitch(device, &pointer, &pitch, WidthInBytes, Height,
					ElementSizeBytes);
	if (result == CUDA_SUCCESS) {
		*dptr = pointer;
		*pPitch = pitch;
	}
	return swaps ? result
		     : commit(result, device, NVS_ENTRY_POINTER, pointer, pitch * Height, bytes,
			      true);
}

/* Unified memory that the program asks for itself stays what it is in every backend. */
NVS_HOOK(cuMemAllocManaged, CUdeviceptr_v2 *dptr, size_t bytesize, unsigned int flags)
{
	struct nvs_device *device = nvs_device_of(NULL);
	uint64_t moving, rest;
	CUresult result;

	if (!device || !dptr || !bytesize)
		return NVS_CALL(cuMemAllocManaged, dptr, bytesize, flags);
	moving = nvs_memory_swaps(device) ? nvs_unified_moving(device, bytesize, flags) : 0;
	rest = bytesize - moving;
	if (!nvs_memory_reserve(device, rest))
		return nvs_lost_refusal(device);
	result = moving ? nvs_unified_alloc(device, dptr, bytesize, flags, moving)
			: NVS_CALL(cuMemAllocManaged, dptr, bytesize, flags);
	return commit(result, device, NVS_ENTRY_POINTER, result == CUDA_SUCCESS ? *dptr : 0, rest,
		      rest, false);
}

NVS_HOOK(cuMemFree, CUdeviceptr_v1 dptr)
{
	struct nvs_entry entry;
	bool known = nvs_account_take(NVS_ENTRY_POINTER, dptr, &entry);

	return nvs_memory_freed(NVS_CALL(cuMemFree, dptr), known, &entry);
}

/* What a dead context answers, in which nothing is freed; who was sent away may free. */
static CUresult dead_here(void)
{
	const struct nvs_device *device = nvs_lost_any() ? nvs_device_of(NULL) : NULL;
	CUresult lost = device ? nvs_lost(device) : CUDA_SUCCESS;

	return lost == NVS_SENT_AWAY ? CUDA_SUCCESS : lost;
}

NVS_HOOK(cuMemFree_v2, CUdeviceptr_v2 dptr)
{
	/* Before somebody else gets the address. */
	struct nvs_tied *ties = nvs_tied_take(NVS_TIED_GIVEN_MEMORY, dptr, true);
	struct nvs_entry entry;
	bool known = false;
	CUresult result = dead_here();

	if (result != CUDA_SUCCESS) {
		nvs_tied_end(ties, false);
		return result;
	}
	if (nvs_allocation_free(dptr, &result)) {
		nvs_exports_check();
	} else {
		known = nvs_account_take(NVS_ENTRY_POINTER, dptr, &entry);
		result = nvs_unified_free(dptr);
	}
	nvs_tied_end(ties, result == CUDA_SUCCESS);
	return nvs_memory_freed(result, known, &entry);
}

/*
 * Arrays: the driver makes them in every backend; what they take is computed from their descriptor.
 */
#define CREATE_ARRAY(kind, handle, computed, call)                                                 \
	struct nvs_device *device = nvs_device_of(NULL);                                           \
	uint64_t size = handle && device ? (computed) : 0;                                         \
	struct nvs_room_given given = nvs_room_given_fixed(size);                                  \
	CUresult result;                                                                           \
                                                                                                   \
	if (!size)                                                                                 \
		return call;                                                                       \
	if (!nvs_memory_reserve(device, size))                                                     \
		return nvs_lost_refusal(device);                                                   \
	do {                                                                                       \
		result = call;                                                                     \
	} while (nvs_memory_may_come(device, result, &given));                                     \
	return commit(result, device, kind, result == CUDA_SUCCESS ? (uintptr_t)*handle : 0, size, \
		      given.bytes, false)

#define ARRAY(symbol, descriptor, bytes_of)                                      \
	NVS_HOOK(symbol, CUarray *pHandle, const descriptor *pAllocateArray)     \
	{                                                                        \
		CREATE_ARRAY(NVS_ENTRY_ARRAY, pHandle, bytes_of(pAllocateArray), \
			     NVS_CALL(symbol, pHandle, pAllocateArray));         \
	}

ARRAY(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, NVS_FLAT_ARRAY_BYTES)
ARRAY(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR_v2, NVS_FLAT_ARRAY_BYTES)
ARRAY(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, NVS_ARRAY_BYTES)
ARRAY(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR_v2, NVS_ARRAY_BYTES)

NVS_HOOK(cuMipmappedArrayCreate, CUmipmappedArray *pHandle,
	 const CUDA_ARRAY3D_DESCRIPTOR_v2 *pMipmappedArrayDesc, unsigned int numMipmapLevels)
{
	CREATE_ARRAY(
		NVS_ENTRY_MIPMAP, pHandle, nvs_array_bytes(pMipmappedArrayDesc, numMipmapLevels),
		NVS_CALL(cuMipmappedArrayCreate, pHandle, pMipmappedArrayDesc, numMipmapLevels));
}

#define DESTROY(symbol, entry_kind, type)                                             \
	NVS_HOOK(symbol, type handle)                                                 \
	{                                                                             \
		struct nvs_entry entry;                                               \
		bool known = nvs_account_take(entry_kind, (uintptr_t)handle, &entry); \
                                                                                      \
		return nvs_memory_freed(NVS_CALL(symbol, handle), known, &entry);     \
	}

DESTROY(cuArrayDestroy, NVS_ENTRY_ARRAY, CUarray)
DESTROY(cuMipmappedArrayDestroy, NVS_ENTRY_MIPMAP, CUmipmappedArray)

/*
 * What another interface allocated is in its account: opening it took nothing, closing it gives
 * nothing.
 */
NVS_HOOK(cuDestroyExternalMemory, CUexternalMemory extMem)
{
	return NVS_CALL(cuDestroyExternalMemory, extMem);
}
