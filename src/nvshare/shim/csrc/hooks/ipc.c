/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of memory and events that processes give each other (CUDA IPC). Who gives them out and who
 * opens them have the same bytes, and are tied by them: work of one may wait for work of the other.
 * Both are tied before they can go on with it. Memory that swaps has handles of ours, and stays
 * where it is from then on: else another process would open what is not there. No state.
 */

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/pass.h"
#include "gate/streams.h"
#include "hooks/look.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunks.h"
#include "memory/swap/exports.h"
#include "memory/swap/opens.h"
#include "process/digest.h"
#include "process/notices.h"
#include "ties/tied.h"
#include "ties/ties.h"

/* The tie that these bytes make, not told yet. */
static struct nvs_tied tie_of(int kind, struct nvs_device *device, const void *bytes, size_t count)
{
	struct nvs_tied tied = { .kind = kind, .device = device, .tie = NVS_TIE_MEMORY };

	nvs_digest(tied.key, bytes, count);
	return tied;
}

static bool join(const struct nvs_tied *tied)
{
	if (!tied->device || !nvs_tie(tied->device, tied->key, NVS_TIE_MEMORY, 0))
		return false;
	nvs_tie_wait(tied->device, tied->key, NVS_TIE_MEMORY);
	return true;
}

/* The same thing may be given out several times. */
static void given(struct nvs_tied tied, uint64_t handle)
{
	tied.handle = handle;
	if (!nvs_tied_has(tied.kind, handle, tied.key) && join(&tied))
		nvs_tied_add(&tied);
}

static CUresult opened(CUresult result, struct nvs_tied tied, bool told, uint64_t handle)
{
	tied.handle = handle;
	if (told && result == CUDA_SUCCESS)
		nvs_tied_add(&tied);
	else if (told)
		nvs_untie(tied.device, tied.key, NVS_TIE_MEMORY);
	return result;
}

static CUresult ended(CUresult result, struct nvs_tied *ties)
{
	nvs_tied_end(ties, result == CUDA_SUCCESS);
	return result;
}

/* Of an allocation of ours. */
static CUresult give(const struct nvs_allocation *allocation, CUipcMemHandle_v1 *handle)
{
	struct nvs_pass pass;
	CUresult result;

	/* Of virtual memory, and of others' memory, the driver has no such handles either. */
	if (allocation->kind != NVS_ALLOCATION_PLAIN || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (nvs_export_find(allocation, handle))
		return CUDA_SUCCESS;
	if (!nvs_chunks_exportable(allocation->device)) {
		nvs_notice(NVS_NOTICE_NO_IPC);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	result = nvs_look_enter(&pass, allocation->device);
	if (result != CUDA_SUCCESS)
		return result;
	if (!nvs_allocation_pin(allocation->start, allocation->bytes))
		result = CUDA_ERROR_SYSTEM_NOT_READY;
	nvs_gate_leave(&pass, result);
	if (result == CUDA_SUCCESS)
		result = nvs_export_add(allocation, handle);
	if (result == CUDA_SUCCESS)
		nvs_notice(NVS_NOTICE_IPC);
	return result;
}

/* A handle is of the whole allocation that the address lies in. */
NVS_HOOK(cuIpcGetMemHandle, CUipcMemHandle_v1 *pHandle, CUdeviceptr_v2 dptr)
{
	CUdeviceptr_v2 start = dptr;
	struct nvs_allocation allocation;
	CUresult result;
	size_t bytes;

	if (nvs_allocation_find(dptr, &allocation)) {
		result = give(&allocation, pHandle);
		if (result == CUDA_SUCCESS)
			given(tie_of(NVS_TIED_GIVEN_MEMORY, allocation.device, pHandle,
				     sizeof(*pHandle)),
			      allocation.start);
		return result;
	}
	result = NVS_CALL(cuIpcGetMemHandle, pHandle, dptr);
	if (result != CUDA_SUCCESS)
		return result;
	NVS_CALL(cuMemGetAddressRange_v2, &start, &bytes, dptr);
	given(tie_of(NVS_TIED_GIVEN_MEMORY, nvs_device_of_pointer(dptr), pHandle, sizeof(*pHandle)),
	      start);
	return result;
}

static CUresult open_ours(const struct nvs_shared_handle *handle, CUdeviceptr *pointer,
			  unsigned int flags)
{
	if (!pointer || flags & ~(unsigned int)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	return nvs_open_map(handle, pointer);
}

#define OPEN_MEMORY(symbol)                                                                        \
	NVS_HOOK(symbol, CUdeviceptr_v2 *pdptr, CUipcMemHandle_v1 handle, unsigned int Flags)      \
	{                                                                                          \
		struct nvs_shared_handle ours;                                                     \
		struct nvs_tied tied;                                                              \
		CUresult result;                                                                   \
		bool told;                                                                         \
                                                                                                   \
		if (!NVS_REAL(symbol))                                                             \
			return CUDA_ERROR_NOT_FOUND;                                               \
		tied = tie_of(NVS_TIED_OPENED_MEMORY, nvs_device_of(NULL), &handle,                \
			      sizeof(handle));                                                     \
		told = join(&tied);                                                                \
		result = nvs_shared_read(&handle, &ours) ? open_ours(&ours, pdptr, Flags)          \
							 : NVS_REAL(symbol)(pdptr, handle, Flags); \
		return opened(result, tied, told, result == CUDA_SUCCESS && pdptr ? *pdptr : 0);   \
	}

OPEN_MEMORY(cuIpcOpenMemHandle)
OPEN_MEMORY(cuIpcOpenMemHandle_v2)

/* Who opened it several times has to close it as often. In the account it is its owner's. */
NVS_HOOK(cuIpcCloseMemHandle, CUdeviceptr_v2 dptr)
{
	struct nvs_tied *tie = nvs_tied_take(NVS_TIED_OPENED_MEMORY, dptr, false);
	CUresult result;

	return ended(nvs_open_close(dptr, &result) ? result : NVS_CALL(cuIpcCloseMemHandle, dptr),
		     tie);
}

NVS_HOOK(cuIpcGetEventHandle, CUipcEventHandle_v1 *pHandle, CUevent event)
{
	CUresult result = NVS_CALL(cuIpcGetEventHandle, pHandle, event);

	if (result == CUDA_SUCCESS)
		given(tie_of(NVS_TIED_EVENT, nvs_device_of(NULL), pHandle, sizeof(*pHandle)),
		      (uintptr_t)event);
	return result;
}

NVS_HOOK(cuIpcOpenEventHandle, CUevent *phEvent, CUipcEventHandle_v1 handle)
{
	struct nvs_tied tied;
	CUresult result;
	bool told;

	if (!NVS_REAL(cuIpcOpenEventHandle))
		return CUDA_ERROR_NOT_FOUND;
	tied = tie_of(NVS_TIED_EVENT, nvs_device_of(NULL), &handle, sizeof(handle));
	told = join(&tied);
	result = NVS_REAL(cuIpcOpenEventHandle)(phEvent, handle);
	return opened(result, tied, told,
		      result == CUDA_SUCCESS && phEvent ? (uintptr_t)*phEvent : 0);
}

#define DESTROY_EVENT(symbol)                                                                   \
	NVS_HOOK(symbol, CUevent hEvent)                                                        \
	{                                                                                       \
		struct nvs_tied *ties = nvs_tied_take(NVS_TIED_EVENT, (uintptr_t)hEvent, true); \
                                                                                                \
		return ended(NVS_CALL(symbol, hEvent), ties);                                   \
	}

DESTROY_EVENT(cuEventDestroy)
DESTROY_EVENT(cuEventDestroy_v2)
