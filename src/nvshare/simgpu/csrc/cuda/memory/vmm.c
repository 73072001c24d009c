/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: reservations of addresses, handles of memory, and the mappings of one
 * into the other, with the access rights of each device. Protected by sim.lock.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/bus.h"
#include "memory/range.h"

static struct sim_physical *physical_of(CUmemGenericAllocationHandle_v1 handle)
{
	return (struct sim_physical *)(uintptr_t)handle;
}

/*
 * The device that memory of these properties is on; -1: the host; -2: the properties are not right.
 */
static int device_of(const CUmemAllocationProp_v1 *prop)
{
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return -2;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST ||
	    prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	    prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return -1;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return -2;
	return sim_device_exists(prop->location.id) ? prop->location.id : -3;
}

static CUresult check_properties(const CUmemAllocationProp_v1 *prop)
{
	int device = device_of(prop);

	if (device == -2)
		return CUDA_ERROR_INVALID_VALUE;
	if (device == -3)
		return CUDA_ERROR_INVALID_DEVICE;
	return prop->handle_types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
		       ? CUDA_ERROR_NOT_SUPPORTED
		       : CUDA_SUCCESS;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp_v1 *prop,
					   CUmemAllocationGranularity_flags option)
{
	CUresult result;

	if (!granularity || !prop || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
	    option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_properties(prop);
	if (result == CUDA_SUCCESS)
		*granularity = SIM_GRANULARITY;
	return result;
}

static bool find_place_locked(struct sim_physical *physical)
{
	if (physical->properties.handle_types == CU_MEM_HANDLE_TYPE_NONE) {
		physical->offset = sim_file_take_locked(physical->bytes);
		return physical->offset != 0;
	}
	physical->file = sim_sharing_new_file(&physical->properties, physical->bytes);
	return physical->file >= 0;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle_v1 *handle, size_t size,
			 const CUmemAllocationProp_v1 *prop, unsigned long long flags)
{
	struct sim_physical *physical = NULL;
	uint64_t start = sim_now_ns();
	CUresult result;
	int device;

	if (!handle || !prop || size == 0 || size % SIM_GRANULARITY != 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_properties(prop);
	if (result != CUDA_SUCCESS)
		return result;
	device = device_of(prop);
	sim_lock();
	if (sim_state_join(&sim.state) &&
	    (device < 0 || sim_state_charge(&sim.state, device, size))) {
		physical = sim_physical_add_locked(prop, device, size);
		physical->charged = device >= 0;
		if (!find_place_locked(physical)) {
			sim_physical_unref_locked(physical);
			physical = NULL;
		}
	}
	sim_unlock();
	if (!physical)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*handle = (uint64_t)(uintptr_t)physical;
	sim_call_takes(start, sim_call_ns(SIM_CALL_CREATE, 1, size));
	return CUDA_SUCCESS;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle_v1 handle)
{
	struct sim_physical *physical = physical_of(handle);
	uint64_t start = sim_now_ns();
	uint64_t freed = 0;

	sim_lock();
	if (!sim_is_locked(physical, SIM_PHYSICAL) || physical->handles == 0) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (--physical->handles == 0)
		freed = sim_physical_unref_locked(physical);
	sim_unlock();
	sim_call_takes(start, sim_call_ns(SIM_CALL_RELEASE, 1, freed));
	return CUDA_SUCCESS;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle_v1 *handle, void *addr)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	const struct sim_range *range;

	if (!handle)
		return result;
	sim_lock();
	range = sim_range_live_locked((uint64_t)(uintptr_t)addr);
	if (range && range->kind == SIM_RANGE_MAPPED) {
		if (range->physical->handles++ == 0)
			range->physical->references++;
		*handle = (uint64_t)(uintptr_t)range->physical;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp_v1 *prop,
						    CUmemGenericAllocationHandle_v1 handle)
{
	const struct sim_physical *physical = physical_of(handle);
	CUresult result = CUDA_SUCCESS;

	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(physical, SIM_PHYSICAL))
		*prop = physical->properties;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult sim_cuMemAddressReserve(CUdeviceptr_v2 *ptr, size_t size, size_t alignment,
				 CUdeviceptr_v2 addr, unsigned long long flags)
{
	uint64_t start_ns = sim_now_ns();
	uint64_t start;

	if (!ptr || size == 0 || size % SIM_GRANULARITY != 0 || alignment & (alignment - 1) ||
	    flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < SIM_GRANULARITY)
		alignment = SIM_GRANULARITY;
	sim_lock();
	start = sim_window_take_locked(size, alignment, addr);
	if (start != 0) {
		sim_reservation_add_locked(start, size);
		*ptr = start;
	}
	sim_unlock();
	sim_call_takes(start_ns, sim_call_ns(SIM_CALL_RESERVE, 1, size));
	return start != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemAddressFree(CUdeviceptr_v2 ptr, size_t size)
{
	struct sim_range *reservation;
	const struct sim_range *mapped;
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	reservation = sim_reservation_find_locked(ptr);
	mapped = sim_range_next_locked(ptr);
	if (!reservation || reservation->start != ptr || reservation->bytes != size ||
	    (mapped && mapped->start < ptr + size))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		sim_reservation_remove_locked(reservation);
	sim_unlock();
	return result;
}

/* Whether [start, start + bytes) is reserved, in one piece or several. */
static bool is_reserved_locked(uint64_t start, uint64_t bytes)
{
	uint64_t at = start;

	while (at < start + bytes) {
		const struct sim_range *reservation = sim_reservation_find_locked(at);

		if (!reservation)
			return false;
		at = reservation->start + reservation->span;
	}
	return true;
}

static bool is_free_locked(uint64_t start, uint64_t bytes)
{
	const struct sim_range *range = sim_range_next_locked(start);

	return !range || range->start >= start + bytes;
}

CUresult sim_cuMemMap(CUdeviceptr_v2 ptr, size_t size, size_t offset,
		      CUmemGenericAllocationHandle_v1 handle, unsigned long long flags)
{
	struct sim_physical *physical = physical_of(handle);
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	uint64_t start = sim_now_ns();
	struct sim_range *range;

	if (size == 0 || size % SIM_GRANULARITY != 0 || ptr % SIM_GRANULARITY != 0 || flags != 0 ||
	    ptr + size < ptr)
		return result;
	sim_lock();
	if (sim_is_locked(physical, SIM_PHYSICAL) && (offset != 0 || size != physical->bytes))
		result = CUDA_ERROR_NOT_SUPPORTED; /* handles are mapped whole */
	else if (sim_is_locked(physical, SIM_PHYSICAL) && is_reserved_locked(ptr, size) &&
		 is_free_locked(ptr, size))
		result = sim_file_map(ptr, size, physical->file, physical->offset)
				 ? CUDA_SUCCESS
				 : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		range = sim_range_add_locked(SIM_RANGE_MAPPED, ptr, size, size);
		range->requested_bytes = size;
		range->device = physical->device;
		range->physical = physical;
		physical->references++;
	}
	sim_unlock();
	if (result == CUDA_SUCCESS)
		sim_call_takes(start, sim_call_ns(SIM_CALL_MAP, 1, size));
	return result;
}

/* Whether no mapping reaches over either end of [start, start + bytes). */
static bool cuts_no_mapping_locked(uint64_t start, uint64_t bytes)
{
	const struct sim_range *first = sim_range_find_locked(start);
	const struct sim_range *last = sim_range_find_locked(start + bytes - 1);

	return (!first || first->start == start) &&
	       (!last || last->start + last->span == start + bytes);
}

CUresult sim_cuMemUnmap(CUdeviceptr_v2 ptr, size_t size)
{
	uint64_t start = sim_now_ns();
	struct sim_range *range;
	uint64_t freed = 0;
	uint64_t count = 0;

	if (size == 0 || ptr % SIM_GRANULARITY != 0 || size % SIM_GRANULARITY != 0 ||
	    ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!is_reserved_locked(ptr, size) || !cuts_no_mapping_locked(ptr, size)) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	while ((range = sim_range_next_locked(ptr)) != NULL && range->start < ptr + size &&
	       !range->going) {
		range->lost = range->pins > 0;
		freed += range->physical->references == 1 ? range->span : 0;
		count++;
		sim_range_drop_locked(range);
	}
	sim_unlock();
	sim_call_takes(start, sim_call_ns(SIM_CALL_UNMAP, count, 0) +
				      sim_call_ns(SIM_CALL_RELEASE, 0, freed));
	return CUDA_SUCCESS;
}
