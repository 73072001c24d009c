/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of what the program is told about memory: the total is the device's, or the container's
 * memory limit if that is less, what is free is what it may still have, a pointer of a disguised
 * backend looks like plain device memory, and what is known of memory that moves is answered
 * without the driver. No state.
 */
#include <string.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/account.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/answers.h"
#include "memory/swap/allocations.h"

static void look(struct nvs_device *device, uint64_t driver_free, uint64_t *free_bytes,
		 uint64_t *total)
{
	uint64_t footprint = atomic_load(&device->footprint_bytes), left;
	struct nvs_limit limit = nvs_limit_of(device->ordinal);

	*total = limit.bytes < device->total_bytes ? limit.bytes : device->total_bytes;
	*free_bytes = nvs_memory_of(device)->free_bytes(device, footprint, driver_free);
	if (nvs_memory_swaps(device))
		footprint += nvs_room_footprint(device);
	left = nvs_limit_left(&limit, footprint);
	if (*free_bytes > left)
		*free_bytes = left;
}

static unsigned int narrow(uint64_t bytes)
{
	return bytes < UINT32_MAX ? (unsigned int)bytes : UINT32_MAX;
}

/* Programs size themselves by these. `fit`: of sizes from before CUDA 3.2, which have 32 bits. */
#define INFO(symbol, type, fit)                                           \
	NVS_HOOK(symbol, type *free, type *total)                         \
	{                                                                 \
		struct nvs_device *device = nvs_device_of(NULL);          \
		uint64_t seen_free, seen_total;                           \
		CUresult result = NVS_CALL(symbol, free, total);          \
                                                                          \
		if (result != CUDA_SUCCESS || !device || !free || !total) \
			return result;                                    \
		look(device, *free, &seen_free, &seen_total);             \
		*free = fit(seen_free);                                   \
		*total = fit(seen_total);                                 \
		return result;                                            \
	}

/* Also before they use the device. */
#define TOTAL(symbol, type, fit)                                \
	NVS_HOOK(symbol, type *bytes, CUdevice_v1 dev)          \
	{                                                       \
		CUresult result = NVS_CALL(symbol, bytes, dev); \
		uint64_t limit;                                 \
                                                                \
		if (result != CUDA_SUCCESS || !bytes)           \
			return result;                          \
		limit = nvs_limit_of(dev).bytes;                \
		if (*bytes > limit)                             \
			*bytes = fit(limit);                    \
		return result;                                  \
	}

INFO(cuMemGetInfo_v2, size_t, )
INFO(cuMemGetInfo, unsigned int, narrow)
TOTAL(cuDeviceTotalMem_v2, size_t, )
TOTAL(cuDeviceTotalMem, unsigned int, narrow)

/* Whether the pointer, perhaps into the middle, is of an allocation that the backend disguises. */
static bool is_disguised(CUdeviceptr pointer, struct nvs_entry *entry)
{
	CUdeviceptr start;

	if (NVS_CALL(cuPointerGetAttribute, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		     pointer) != CUDA_SUCCESS)
		return false;
	return nvs_account_find(NVS_ENTRY_POINTER, start, entry) && entry->plain &&
	       nvs_memory_of(nvs_device_known(entry->device))->disguised;
}

static bool betrays(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
	       attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
	       attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
	       attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
}

/* `data` was filled by the driver. */
static void disguise(CUpointer_attribute attribute, void *data, const struct nvs_entry *entry)
{
	if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
		*(unsigned int *)data = CU_MEMORYTYPE_DEVICE;
	else if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		*(void **)data = NULL;
	else if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED)
		/*
		 * a truth value of the program's own size, of which the driver set the lowest byte
		 */
		*(unsigned char *)data = 0;
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		*(int *)data = entry->device;
}

static bool has_context(void)
{
	CUcontext context = NULL;

	return NVS_CALL(cuCtxGetCurrent, &context) == CUDA_SUCCESS && context;
}

/* Whether the question is about memory that moves; the driver answers those without a context. */
static bool is_answered(CUdeviceptr pointer, CUpointer_attribute attribute,
			struct nvs_answer *answer)
{
	return nvs_answer_attribute(pointer, attribute, answer) && has_context();
}

NVS_HOOK(cuMemGetAddressRange_v2, CUdeviceptr_v2 *pbase, size_t *psize, CUdeviceptr_v2 dptr)
{
	CUdeviceptr start;
	uint64_t bytes;
	CUresult result;

	if (!nvs_answer_range(dptr, &start, &bytes, &result) || !has_context())
		return NVS_CALL(cuMemGetAddressRange_v2, pbase, psize, dptr);
	if (result == CUDA_SUCCESS && pbase)
		*pbase = start;
	if (result == CUDA_SUCCESS && psize)
		*psize = bytes;
	return result;
}

/*
 * The driver lets nobody set it of memory that is mapped, as allocations are. Of plain memory it is
 * remembered: it is for other devices that read such memory, and they can't read what moves.
 */
NVS_HOOK(cuPointerSetAttribute, const void *value, CUpointer_attribute attribute,
	 CUdeviceptr_v2 ptr)
{
	struct nvs_allocation allocation;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
	    !nvs_allocation_find(ptr, &allocation) || !has_context())
		return NVS_CALL(cuPointerSetAttribute, value, attribute, ptr);
	return nvs_allocation_set_sync_memops(ptr, *(const int *)value) ? CUDA_SUCCESS
									: CUDA_ERROR_NOT_SUPPORTED;
}

NVS_HOOK(cuPointerGetAttribute, void *data, CUpointer_attribute attribute, CUdeviceptr_v2 ptr)
{
	struct nvs_answer answer;
	struct nvs_entry entry;
	CUresult result;

	if (data && is_answered(ptr, attribute, &answer)) {
		memcpy(data, answer.value, answer.bytes);
		return answer.result;
	}
	if (!data || !betrays(attribute) || !is_disguised(ptr, &entry))
		return NVS_CALL(cuPointerGetAttribute, data, attribute, ptr);
	/* Device memory has no address for the host. */
	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		return CUDA_ERROR_INVALID_VALUE;
	result = NVS_CALL(cuPointerGetAttribute, data, attribute, ptr);
	if (result == CUDA_SUCCESS)
		disguise(attribute, data, &entry);
	return result;
}

/* What does not apply to the pointer is zero, without an error. */
static CUresult answer_all(unsigned int count, const CUpointer_attribute *attributes, void **data,
			   CUdeviceptr pointer)
{
	struct nvs_answer answer;

	for (unsigned int i = 0; i < count; i++) {
		if (!nvs_answer_attribute(pointer, attributes[i], &answer) || !answer.bytes)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(data[i], answer.value, answer.bytes);
	}
	return CUDA_SUCCESS;
}

NVS_HOOK(cuPointerGetAttributes, unsigned int numAttributes, CUpointer_attribute *attributes,
	 void **data, CUdeviceptr_v2 ptr)
{
	struct nvs_allocation allocation;
	CUresult result;
	struct nvs_entry entry;

	if (numAttributes && attributes && data && nvs_allocation_find(ptr, &allocation) &&
	    has_context())
		return answer_all(numAttributes, attributes, data, ptr);
	result = NVS_CALL(cuPointerGetAttributes, numAttributes, attributes, data, ptr);
	if (result != CUDA_SUCCESS || !is_disguised(ptr, &entry))
		return result;
	for (unsigned int i = 0; i < numAttributes; i++)
		disguise(attributes[i], data[i], &entry);
	return result;
}
