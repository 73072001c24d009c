/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice about managed memory, and prefetches of it. Queries answer with what was said last; advice
 * has no other effect.
 */
#include <string.h>

#include "memory/paging.h"
#include "memory/range.h"
#include "stream/stream.h"

/* The managed range that [address, address + bytes) lies in; NULL: there is none. */
static struct sim_range *managed_locked(uint64_t address, uint64_t bytes)
{
	struct sim_range *range = sim_range_live_locked(address);

	if (!range || range->kind != SIM_RANGE_MANAGED || bytes == 0 ||
	    bytes > range->start + range->bytes - address)
		return NULL;
	return range;
}

static bool is_host(CUmemLocation_v1 location)
{
	return location.type == CU_MEM_LOCATION_TYPE_HOST ||
	       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult check_location(CUmemLocation_v1 location)
{
	if (is_host(location))
		return CUDA_SUCCESS;
	if (location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_device_exists(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* A device's number as a location, where -1 is the host. */
static CUmemLocation_v1 location_of(CUdevice device)
{
	return (CUmemLocation_v1){ device == -1 ? CU_MEM_LOCATION_TYPE_HOST
						: CU_MEM_LOCATION_TYPE_DEVICE,
				   device };
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr_v2 devPtr, size_t count, CUmemLocation_v1 location,
				   unsigned int flags, CUstream hStream)
{
	struct sim_op op = { .kind = SIM_OP_PREFETCH,
			     .u.memory = { devPtr, count, is_host(location) ? -1 : location.id } };
	struct sim_range *range;
	CUresult result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : check_location(location);

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	range = managed_locked(devPtr, count);
	sim_unlock();
	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_submit(hStream, &op, NULL);
	sim_lock();
	range = managed_locked(devPtr, count);
	if (result == CUDA_SUCCESS && range)
		range->advice.prefetched =
			is_host(location) ? (CUmemLocation_v1){ location.type, -1 } : location;
	sim_unlock();
	return result;
}

void sim_prefetch_run(const struct sim_op *op)
{
	uint64_t start = op->u.memory.address;
	uint64_t end = start + op->u.memory.bytes;
	int device = op->u.memory.device;
	struct sim_paging paging;

	sim_lock();
	if (device >= 0)
		paging = sim_paging_touch_locked(device, start, end);
	else
		paging = sim_paging_leave_locked(start, end, &device);
	sim_unlock();
	if (device >= 0)
		sim_paging_wait(device, paging, SIM_CARGO_PREFETCHED);
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr_v2 devPtr, size_t count, CUdevice_v1 dstDevice,
				CUstream hStream)
{
	return sim_cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream);
}

static void advise(struct sim_range *range, CUmem_advise advice, CUmemLocation_v1 location)
{
	uint64_t bit = is_host(location) ? 0 : 1ull << location.id;

	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		range->advice.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		range->advice.preferred =
			is_host(location) ? (CUmemLocation_v1){ location.type, -1 } : location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		range->advice.preferred = (CUmemLocation_v1){ CU_MEM_LOCATION_TYPE_INVALID, -2 };
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		range->advice.accessed_by |= bit;
		range->advice.accessed_by_host |= is_host(location);
		break;
	default:
		range->advice.accessed_by &= ~bit;
		if (is_host(location))
			range->advice.accessed_by_host = false;
		break;
	}
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr_v2 devPtr, size_t count, CUmem_advise advice,
			    CUmemLocation_v1 location)
{
	bool has_location = advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
			    advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
			    advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
	struct CUctx_st *context;
	struct sim_range *range;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return CUDA_ERROR_INVALID_VALUE;
	if (has_location)
		result = check_location(location);
	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	range = managed_locked(devPtr, count);
	if (range)
		advise(range, advice, location);
	sim_unlock();
	return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemAdvise(CUdeviceptr_v2 devPtr, size_t count, CUmem_advise advice,
			 CUdevice_v1 device)
{
	return sim_cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

/* The devices that memory is accessed by, one int each, and -2 in what is left of the answer. */
static void list_accessors(const struct sim_range *range, int *out, size_t room)
{
	size_t filled = 0;

	if (range->advice.accessed_by_host && filled < room)
		out[filled++] = -1;
	for (int i = 0; i < SIM_MAX_DEVICES && filled < room; i++) {
		if (range->advice.accessed_by >> i & 1)
			out[filled++] = i;
	}
	while (filled < room)
		out[filled++] = -2;
}

static CUresult range_attribute_locked(const struct sim_range *range,
				       CUmem_range_attribute attribute, void *data, size_t size)
{
	int *out = data;

	if (size == 0 || size % sizeof(int) != 0 ||
	    (size != sizeof(int) && attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY))
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*out = range->advice.read_mostly;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*out = range->advice.preferred.id;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*out = range->advice.preferred.type;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*out = range->advice.prefetched.id;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*out = range->advice.prefetched.type;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		list_accessors(range, out, size / sizeof(int));
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult sim_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
				    CUdeviceptr_v2 devPtr, size_t count)
{
	const struct sim_range *range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!data)
		return result;
	sim_lock();
	range = managed_locked(devPtr, count);
	if (range)
		result = range_attribute_locked(range, attribute, data, dataSize);
	sim_unlock();
	return result;
}

CUresult sim_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
				     CUmem_range_attribute *attributes, size_t numAttributes,
				     CUdeviceptr_v2 devPtr, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	if (!data || !dataSizes || !attributes || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < numAttributes; i++)
		result = sim_cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr,
						    count);
	return result;
}

CUresult sim_cuMemPrefetchBatchAsync(CUdeviceptr_v2 *dptrs, size_t *sizes, size_t count,
				     CUmemLocation_v1 *prefetchLocs, size_t *prefetchLocIdxs,
				     size_t numPrefetchLocs, unsigned long long flags,
				     CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;
	size_t group = 0;

	if (!dptrs || !sizes || count == 0 || !prefetchLocs || !prefetchLocIdxs ||
	    numPrefetchLocs == 0 || prefetchLocIdxs[0] != 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
		if (group + 1 < numPrefetchLocs && prefetchLocIdxs[group + 1] <= i)
			group++;
		result = sim_cuMemPrefetchAsync_v2(dptrs[i], sizes[i], prefetchLocs[group], 0,
						   hStream);
	}
	return result;
}

CUresult sim_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr_v2 dptr, size_t length,
				    unsigned int flags)
{
	struct sim_op op = { .kind = SIM_OP_EMPTY };
	const struct sim_range *range;

	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	    flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_live_locked(dptr);
	if (range && (range->kind != SIM_RANGE_MANAGED || range->start != dptr ||
		      (length != 0 && length != range->requested_bytes)))
		range = NULL;
	sim_unlock();
	return range ? sim_submit(hStream, &op, NULL) : CUDA_ERROR_INVALID_VALUE;
}
