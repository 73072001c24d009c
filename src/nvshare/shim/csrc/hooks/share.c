/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of what makes memory of this process known to others: to another process, to the driver of
 * another device, to a multicast object. Nobody would tell them where it went, so from then on it
 * stays where it is; while the call looks at it, the gate's pass keeps it there. Memory of others
 * is theirs to move. No state.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/pass.h"
#include "gate/streams.h"
#include "hooks/look.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunk.h"
#include "memory/swap/handles.h"
#include "memory/swap/runs.h"
#include "memory/swap/virtual.h"
#include "ties/ties.h"

#define FABRIC_BYTES 64 /* CUmemFabricHandle */

/* Something of this process was made known to others, or not: then it may still move. */
static CUresult shared(CUresult result, bool pinned)
{
	return result == CUDA_SUCCESS && !pinned ? CUDA_ERROR_SYSTEM_NOT_READY : result;
}

/*
 * Over a fabric both processes have the same bytes, which tie them; nobody tells when the last of
 * the memory's mappings ends. A descriptor has another number in each process, and nothing is known
 * by which both could see that theirs is of the same memory: it ties nobody.
 */
static CUresult made_known(CUresult result, struct nvs_device *device, const void *bytes,
			   CUmemAllocationHandleType type)
{
	if (result == CUDA_SUCCESS && type == CU_MEM_HANDLE_TYPE_FABRIC && bytes)
		nvs_tie_for_good(device, bytes, FABRIC_BYTES);
	return result;
}

NVS_HOOK(cuMemExportToShareableHandle, void *shareableHandle,
	 CUmemGenericAllocationHandle_v1 handle, CUmemAllocationHandleType handleType,
	 unsigned long long flags)
{
	struct nvs_device *device;
	struct nvs_handle *ours;
	struct nvs_pass pass;
	CUresult result;

	if (!nvs_handle_has_form(handle)) {
		result = NVS_CALL(cuMemExportToShareableHandle, shareableHandle, handle, handleType,
				  flags);
		return made_known(result, nvs_device_of(NULL), shareableHandle, handleType);
	}
	ours = nvs_handle_get(handle);
	if (!ours)
		return CUDA_ERROR_INVALID_VALUE;
	result = nvs_look_enter(&pass, ours->device);
	if (result == CUDA_SUCCESS) {
		/* One that may be exported is of one chunk; for others the driver says no. */
		result = NVS_CALL(cuMemExportToShareableHandle, shareableHandle,
				  ours->run->chunks[0]->handle, handleType, flags);
		if (result == CUDA_SUCCESS)
			result = shared(result, nvs_run_pin(ours->run, 0, ours->bytes));
		nvs_gate_leave(&pass, result);
	}
	device = ours->device;
	nvs_handle_put(ours);
	return made_known(result, device, shareableHandle, handleType);
}

/* What is imported is mapped and used only after this. */
NVS_HOOK(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle_v1 *handle, void *osHandle,
	 CUmemAllocationHandleType shHandleType)
{
	return made_known(NVS_CALL(cuMemImportFromShareableHandle, handle, osHandle, shHandleType),
			  nvs_device_of(NULL), osHandle, shHandleType);
}

/* Calls that name addresses. */
#define BY_ADDRESS(symbol, start, bytes, arguments, ...)                                     \
	NVS_HOOK(symbol, __VA_ARGS__)                                                        \
	{                                                                                    \
		struct nvs_pass pass;                                                        \
		struct nvs_allocation allocation;                                            \
		CUresult result;                                                             \
                                                                                             \
		if (!NVS_REAL(symbol))                                                       \
			return CUDA_ERROR_NOT_FOUND;                                         \
		if (!nvs_allocation_find(start, &allocation) ||                              \
		    allocation.kind == NVS_ALLOCATION_OPENED)                                \
			return NVS_REAL(symbol) arguments;                                   \
		result = nvs_look_enter(&pass, allocation.device);                           \
		if (result != CUDA_SUCCESS)                                                  \
			return result;                                                       \
		result = NVS_REAL(symbol) arguments;                                         \
		if (result == CUDA_SUCCESS)                                                  \
			result = shared(result, allocation.kind == NVS_ALLOCATION_MAPPING    \
							? nvs_virtual_pin(start, bytes)      \
							: nvs_allocation_pin(start, bytes)); \
		nvs_gate_leave(&pass, result);                                               \
		return result;                                                               \
	}

BY_ADDRESS(cuMemGetHandleForAddressRange, dptr, size, (handle, dptr, size, handleType, flags),
	   void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType,
	   unsigned long long flags)
BY_ADDRESS(cuMulticastBindAddr, memptr, size, (mcHandle, mcOffset, memptr, size, flags),
	   CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size,
	   unsigned long long flags)
BY_ADDRESS(cuMulticastBindAddr_v2, memptr, size, (mcHandle, dev, mcOffset, memptr, size, flags),
	   CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, CUdeviceptr memptr,
	   size_t size, unsigned long long flags)
BY_ADDRESS(cuLogicalEndpointBindAddr, (uintptr_t)ptr, size, (leId, dev, offset, ptr, size, flags),
	   CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, void *ptr, cuuint64_t size,
	   unsigned long long flags)

/* What a part of a handle is bound to. */
struct target {
	CUmemGenericAllocationHandle multicast;
	CUlogicalEndpointId endpoint;
	CUdevice device;
	uint64_t offset;
	unsigned long long flags;
};

/* Binds `bytes` of a handle of the driver's, from `from` on. */
typedef CUresult binder(const struct target *target, CUmemGenericAllocationHandle handle,
			uint64_t from, uint64_t bytes);

static CUresult bind_multicast(const struct target *target, CUmemGenericAllocationHandle handle,
			       uint64_t from, uint64_t bytes)
{
	return NVS_CALL(cuMulticastBindMem, target->multicast, target->offset, handle, from, bytes,
			target->flags);
}

static CUresult bind_multicast_of(const struct target *target, CUmemGenericAllocationHandle handle,
				  uint64_t from, uint64_t bytes)
{
	return NVS_CALL(cuMulticastBindMem_v2, target->multicast, target->device, target->offset,
			handle, from, bytes, target->flags);
}

static CUresult bind_endpoint(const struct target *target, CUmemGenericAllocationHandle handle,
			      uint64_t from, uint64_t bytes)
{
	return NVS_CALL(cuLogicalEndpointBindMem, target->endpoint, target->device, target->offset,
			handle, from, bytes, target->flags);
}

/*
 * Chunk by chunk, and pinned before: if the driver refuses one, those before it are bound. It is
 * asked about a part that the handle has not as well: what it then says, it knows best.
 */
static CUresult bind_parts(struct nvs_handle *ours, uint64_t from, uint64_t bytes, binder *one,
			   struct target target)
{
	CUresult result =
		nvs_run_pin(ours->run, from, bytes) ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_NOT_READY;
	uint64_t at = 0;

	if (result == CUDA_SUCCESS &&
	    (ours->run->count == 1 || from > ours->bytes || bytes > ours->bytes - from))
		return one(&target, ours->run->chunks[0]->handle, from, bytes);
	for (size_t i = 0; result == CUDA_SUCCESS && bytes; at += ours->run->chunks[i++]->bytes) {
		uint64_t rest = at + ours->run->chunks[i]->bytes - from, part;

		if (from >= at + ours->run->chunks[i]->bytes)
			continue;
		part = bytes < rest ? bytes : rest;
		result = one(&target, ours->run->chunks[i]->handle, from - at, part);
		from += part;
		target.offset += part;
		bytes -= part;
	}
	return result;
}

/* `number`: of a handle of ours, or of the driver's. */
static CUresult bind_to(CUmemGenericAllocationHandle number, uint64_t from, uint64_t bytes,
			binder *one, struct target target)
{
	struct nvs_handle *ours = nvs_handle_get(number);
	struct nvs_pass pass;
	CUresult result;

	if (!nvs_handle_has_form(number))
		return one(&target, number, from, bytes);
	if (!ours)
		return CUDA_ERROR_INVALID_VALUE;
	result = nvs_look_enter(&pass, ours->device);
	if (result == CUDA_SUCCESS) {
		result = bind_parts(ours, from, bytes, one, target);
		nvs_gate_leave(&pass, result);
	}
	nvs_handle_put(ours);
	return result;
}

NVS_HOOK(cuMulticastBindMem, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
	 CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
	 unsigned long long flags)
{
	return bind_to(
		memHandle, memOffset, size, bind_multicast,
		(struct target){ .multicast = mcHandle, .offset = mcOffset, .flags = flags });
}

NVS_HOOK(cuMulticastBindMem_v2, CUmemGenericAllocationHandle mcHandle, CUdevice dev,
	 size_t mcOffset, CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
	 unsigned long long flags)
{
	return bind_to(
		memHandle, memOffset, size, bind_multicast_of,
		(struct target){
			.multicast = mcHandle, .device = dev, .offset = mcOffset, .flags = flags });
}

NVS_HOOK(cuLogicalEndpointBindMem, CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset,
	 CUmemGenericAllocationHandle memHandle, cuuint64_t memOffset, cuuint64_t size,
	 unsigned long long flags)
{
	return bind_to(memHandle, memOffset, size, bind_endpoint,
		       (struct target){
			       .endpoint = leId, .device = dev, .offset = offset, .flags = flags });
}
