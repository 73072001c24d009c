/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the program's own virtual memory management. What may move has handles of ours
 * (memory/swap/handles.h), and all about it is answered by us (memory/swap/virtual.h).
 *
 * The rest is the driver's and only counted. Device memory lives as long as a handle of it or a
 * mapping does, so the book has a block for each cuMemCreate, numbered by us because a handle's
 * number may come back while the old block is still mapped, and handles and mappings that hold it.
 * What was imported is the exporter's. State: the numbers of blocks.
 */
#include <stdatomic.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "memory/account.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/handles.h"
#include "memory/swap/virtual.h"

static _Atomic uint64_t blocks;

static void hold_block(uint64_t block, int change)
{
	struct nvs_entry entry;

	if (nvs_account_hold(NVS_ENTRY_BLOCK, block, change, &entry) && entry.holds == 0)
		nvs_memory_discharge(&entry);
}

static struct nvs_device *device_of(const CUmemAllocationProp_v1 *prop)
{
	return prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE
		       ? nvs_device_use(prop->location.id)
		       : NULL;
}

NVS_HOOK(cuMemCreate, CUmemGenericAllocationHandle_v1 *handle, size_t size,
	 const CUmemAllocationProp_v1 *prop, unsigned long long flags)
{
	struct nvs_device *device = device_of(prop);
	struct nvs_entry entry = { .kind = NVS_ENTRY_BLOCK, .bytes = size, .holds = 1 };
	struct nvs_room_given given = nvs_room_given_fixed(size);
	CUresult result;

	if (!device || !handle)
		return NVS_CALL(cuMemCreate, handle, size, prop, flags);
	if (nvs_memory_swaps(device) && nvs_handle_may_move(prop, size, flags))
		return nvs_handle_create(device, size, prop, handle);
	if (!nvs_memory_reserve(device, size))
		return nvs_lost_refusal(device);
	do {
		result = NVS_CALL(cuMemCreate, handle, size, prop, flags);
	} while (nvs_memory_may_come(device, result, &given));
	if (result != CUDA_SUCCESS) {
		nvs_memory_release(device, given.bytes);
		return result;
	}
	entry.device = device->ordinal;
	entry.key = atomic_fetch_add(&blocks, 1) + 1;
	nvs_memory_charge(&entry, size);
	entry = (struct nvs_entry){
		.kind = NVS_ENTRY_HANDLE, .key = *handle, .owner = entry.key, .holds = 1
	};
	nvs_account_add(&entry);
	return result;
}

static CUresult release_ours(struct nvs_handle *handle)
{
	bool owned = nvs_handle_disown(handle);

	nvs_handle_put(handle);
	return owned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult release_drivers(CUmemGenericAllocationHandle handle)
{
	struct nvs_entry entry;
	bool known = nvs_account_hold(NVS_ENTRY_HANDLE, handle, -1, &entry);
	CUresult result = NVS_CALL(cuMemRelease, handle);

	if (known && result == CUDA_SUCCESS) {
		hold_block(entry.owner, -1);
	} else if (known && entry.holds == 0) {
		entry.holds = 1;
		nvs_account_add(&entry);
	} else if (known) {
		nvs_account_hold(NVS_ENTRY_HANDLE, handle, 1, &entry);
	}
	return result;
}

NVS_HOOK(cuMemRelease, CUmemGenericAllocationHandle_v1 handle)
{
	struct nvs_handle *ours = nvs_handle_get(handle);

	if (nvs_handle_has_form(handle))
		return ours ? release_ours(ours) : CUDA_ERROR_INVALID_VALUE;
	return release_drivers(handle);
}

/*
 * A handle that was released may be had again from an address; its block then counts by its
 * mappings alone.
 */
static CUresult retain_drivers(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult result = NVS_CALL(cuMemRetainAllocationHandle, handle, addr);
	struct nvs_entry entry;

	if (result == CUDA_SUCCESS && nvs_account_hold(NVS_ENTRY_HANDLE, *handle, 1, &entry))
		hold_block(entry.owner, 1);
	return result;
}

NVS_HOOK(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle_v1 *handle, void *addr)
{
	struct nvs_handle *ours = handle ? nvs_virtual_handle((uintptr_t)addr) : NULL;

	if (!ours)
		/* Plain memory of ours has a handle for the driver, which is none of the program's.
		 */
		return nvs_virtual_ours((uintptr_t)addr, 1) ? CUDA_ERROR_INVALID_VALUE
							    : retain_drivers(handle, addr);
	nvs_handle_own(ours);
	*handle = ours->number;
	nvs_handle_put(ours);
	return CUDA_SUCCESS;
}

NVS_HOOK(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp_v1 *prop,
	 CUmemGenericAllocationHandle_v1 handle)
{
	struct nvs_handle *ours;

	if (!nvs_handle_has_form(handle))
		return NVS_CALL(cuMemGetAllocationPropertiesFromHandle, prop, handle);
	ours = prop ? nvs_handle_get(handle) : NULL;
	if (!ours)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = ours->prop;
	nvs_handle_put(ours);
	return CUDA_SUCCESS;
}

NVS_HOOK(cuMemAddressReserve, CUdeviceptr_v2 *ptr, size_t size, size_t alignment,
	 CUdeviceptr_v2 addr, unsigned long long flags)
{
	return nvs_virtual_reserve(ptr, size, alignment, addr, flags);
}

NVS_HOOK(cuMemAddressFree, CUdeviceptr_v2 ptr, size_t size)
{
	return nvs_virtual_free(ptr, size);
}

static CUresult map_drivers(CUdeviceptr ptr, size_t size, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct nvs_entry entry, mapping = { .kind = NVS_ENTRY_MAPPING, .key = ptr, .bytes = size };
	CUresult result;

	/* The driver does not know of what lies there and is out. */
	if (nvs_virtual_ours(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	result = NVS_CALL(cuMemMap, ptr, size, offset, handle, flags);
	if (result != CUDA_SUCCESS)
		return result;
	if (nvs_account_find(NVS_ENTRY_HANDLE, handle, &entry)) {
		mapping.owner = entry.owner;
		hold_block(entry.owner, 1);
	}
	nvs_account_add(&mapping);
	nvs_virtual_mapped(ptr, size);
	return result;
}

NVS_HOOK(cuMemMap, CUdeviceptr_v2 ptr, size_t size, size_t offset,
	 CUmemGenericAllocationHandle_v1 handle, unsigned long long flags)
{
	struct nvs_handle *ours;
	CUresult result;

	if (!nvs_handle_has_form(handle))
		return map_drivers(ptr, size, offset, handle, flags);
	ours = nvs_handle_get(handle);
	if (!ours)
		return CUDA_ERROR_INVALID_VALUE;
	result = nvs_virtual_map(ours, ptr, size, offset, flags);
	nvs_handle_put(ours);
	return result;
}

/* Renames the mappings from `ptr` on, which lie one behind the other. */
static void rename_mappings(CUdeviceptr_v2 ptr, size_t size, int from, int to)
{
	struct nvs_entry entry;

	for (uint64_t offset = 0; offset < size && nvs_account_take(from, ptr + offset, &entry);
	     offset += entry.bytes) {
		entry.kind = to;
		nvs_account_add(&entry);
	}
}

/*
 * The mappings leave the book before the driver does its part, because afterwards others may map at
 * these addresses.
 */
static CUresult unmap_drivers(CUdeviceptr ptr, size_t size)
{
	struct nvs_entry entry;
	CUresult result;

	rename_mappings(ptr, size, NVS_ENTRY_MAPPING, NVS_ENTRY_LEAVING);
	result = NVS_CALL(cuMemUnmap, ptr, size);
	if (result != CUDA_SUCCESS) {
		rename_mappings(ptr, size, NVS_ENTRY_LEAVING, NVS_ENTRY_MAPPING);
		return result;
	}
	for (uint64_t offset = 0;
	     offset < size && nvs_account_take(NVS_ENTRY_LEAVING, ptr + offset, &entry);
	     offset += entry.bytes)
		hold_block(entry.owner, -1);
	return result;
}

NVS_HOOK(cuMemUnmap, CUdeviceptr_v2 ptr, size_t size)
{
	CUresult result;

	if (nvs_virtual_ours(ptr, size))
		return nvs_virtual_unmap(ptr, size, unmap_drivers);
	result = unmap_drivers(ptr, size);
	if (result == CUDA_SUCCESS)
		nvs_virtual_unmapped(ptr, size);
	return result;
}

NVS_HOOK(cuMemGetAccess, unsigned long long *flags, const CUmemLocation_v1 *location,
	 CUdeviceptr_v2 ptr)
{
	return nvs_virtual_ours(ptr, 1) ? nvs_virtual_get_access(flags, location, ptr)
					: NVS_CALL(cuMemGetAccess, flags, location, ptr);
}

/* A multicast object is made of what is bound to it, and that is accounted. */
NVS_HOOK(cuMulticastCreate, CUmemGenericAllocationHandle *mcHandle,
	 const CUmulticastObjectProp *prop)
{
	return NVS_CALL(cuMulticastCreate, mcHandle, prop);
}
