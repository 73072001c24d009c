/* SPDX-License-Identifier: Apache-2.0 */
/* The rights of each device to mapped memory. The ranges are range.c's; protected by sim.lock. */
#include "device/bus.h"
#include "memory/range.h"

static bool is_device(const CUmemAccessDesc_v1 *desc)
{
	return desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* The processor may be allowed to use memory of the host. */
static CUresult check_access(const CUmemAccessDesc_v1 *desc, bool host_memory)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (host_memory && (desc->location.type == CU_MEM_LOCATION_TYPE_HOST ||
			    desc->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA))
		return CUDA_SUCCESS;
	if (desc->location.type == CU_MEM_LOCATION_TYPE_HOST)
		return CUDA_ERROR_NOT_SUPPORTED;
	return is_device(desc) && sim_device_exists(desc->location.id) ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_VALUE;
}

/*
 * Whether whole mappings begin and end where [start, start + bytes) does; what is between them does
 * not matter.
 */
static bool bounds_mappings_locked(uint64_t start, uint64_t bytes)
{
	const struct sim_range *first = sim_range_live_locked(start);
	const struct sim_range *last = sim_range_live_locked(start + bytes - 1);

	return bytes > 0 && first && last && first->kind == SIM_RANGE_MAPPED &&
	       last->kind == SIM_RANGE_MAPPED && first->start == start &&
	       last->start + last->span == start + bytes;
}

/* Who uses the memory and loses rights is at fault; waits until nobody uses it. */
static void change_locked(struct sim_range *range, const CUmemAccessDesc_v1 *desc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned char flags = (unsigned char)desc[i].flags;

		if (is_device(&desc[i]))
			range->lost |=
				range->pins > 0 && range->access[desc[i].location.id] & ~flags;
	}
	while (range->pins > 0)
		pthread_cond_wait(&sim.changed, &sim.lock);
	range->lost = false;
	for (size_t i = 0; i < count; i++)
		if (is_device(&desc[i]))
			range->access[desc[i].location.id] = (unsigned char)desc[i].flags;
		else
			sim_file_show(range->start, range->span, range->physical->file,
				      range->physical->offset,
				      desc[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ,
				      desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

/* Whether all that is mapped in [start, end) is memory of the host. */
static bool is_of_host_locked(uint64_t start, uint64_t end)
{
	const struct sim_range *range = sim_range_next_locked(start);

	while (range && range->start < end && range->kind == SIM_RANGE_MAPPED &&
	       range->physical->device < 0)
		range = sim_range_next_locked(range->start + range->span);
	return !range || range->start >= end;
}

CUresult sim_cuMemSetAccess(CUdeviceptr_v2 ptr, size_t size, const CUmemAccessDesc_v1 *desc,
			    size_t count)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t start = sim_now_ns();
	uint64_t mappings = 0;

	if (!desc || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = check_access(&desc[i], is_of_host_locked(ptr, ptr + size));
	if (result == CUDA_SUCCESS && !bounds_mappings_locked(ptr, size))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS) {
		sim_unlock();
		return result;
	}
	for (struct sim_range *range = sim_range_next_locked(ptr);
	     range && range->start < ptr + size;
	     range = sim_range_next_locked(range->start + range->span)) {
		change_locked(range, desc, count);
		mappings++;
	}
	sim_unlock();
	sim_call_takes(start, sim_call_ns(SIM_CALL_SET_ACCESS, mappings, size));
	return result;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation_v1 *location,
			    CUdeviceptr_v2 ptr)
{
	const struct sim_range *range;
	CUresult result = CUDA_SUCCESS;

	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sim_device_exists(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_live_locked(ptr);
	if (range && range->kind == SIM_RANGE_MAPPED)
		*flags = range->access[location->id];
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}
