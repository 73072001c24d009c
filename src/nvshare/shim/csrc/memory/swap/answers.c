/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers, as driver 580 gives them for plain memory and for mappings (an H200): which of them
 * there are, how many bytes each writes, and what stands there. No state, no lock.
 */
#include "memory/swap/answers.h"

#include <string.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunks.h"
#include "memory/swap/virtual.h"

static struct nvs_answer wide(uint64_t value)
{
	struct nvs_answer answer = { .result = CUDA_SUCCESS, .bytes = sizeof(value) };

	memcpy(answer.value, &value, sizeof(value));
	return answer;
}

static struct nvs_answer narrow(uint32_t value)
{
	struct nvs_answer answer = { .result = CUDA_SUCCESS, .bytes = sizeof(value) };

	memcpy(answer.value, &value, sizeof(value));
	return answer;
}

/* There is no such address: 0. */
static struct nvs_answer none(void)
{
	return (struct nvs_answer){ .result = CUDA_ERROR_INVALID_VALUE, .bytes = 8 };
}

/* How the current context's device may reach it. */
static uint32_t reach_flags(const struct nvs_allocation *allocation, CUdeviceptr address)
{
	const struct nvs_device *device = nvs_device_of(NULL);
	CUmemLocation_v1 location = { CU_MEM_LOCATION_TYPE_DEVICE, device ? device->ordinal : 0 };
	unsigned long long flags = 0;

	if (allocation->kind == NVS_ALLOCATION_MAPPING)
		nvs_virtual_get_access(&flags, &location, address);
	else if (device == allocation->device ||
		 nvs_chunks_allowed(allocation->device) & 1ULL << location.id)
		flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return (uint32_t)flags;
}

/* Of plain memory the driver says so to those that can't reach it, too. */
static uint32_t access_flags(const struct nvs_allocation *allocation, CUdeviceptr address)
{
	return allocation->kind == NVS_ALLOCATION_PLAIN ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
							: reach_flags(allocation, address);
}

/* The numbers of 64 bits; false: it is none of them. */
static bool number_of(const struct nvs_allocation *allocation, CUdeviceptr address,
		      CUpointer_attribute attribute, uint64_t *number)
{
	CUdeviceptr start = allocation->start;
	uint64_t bytes = allocation->bytes;

	if (allocation->kind == NVS_ALLOCATION_MAPPING)
		nvs_virtual_reservation(address, &start, &bytes);
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*number = (uintptr_t)allocation->context;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*number = allocation->id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*number = start;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*number = bytes;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*number = allocation->mapping_bytes;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*number = allocation->mapping;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*number = allocation->mapping_id;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*number = 0;
		return true;
	default:
		return false;
	}
}

static struct nvs_answer property_of(const struct nvs_allocation *allocation, CUdeviceptr address,
				     CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return narrow(CU_MEMORYTYPE_DEVICE);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return reach_flags(allocation, address) ? wide(address) : none();
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return none();
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return (struct nvs_answer){ .result = CUDA_SUCCESS, .bytes = NVS_ANSWER_BYTES };
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return narrow(allocation->sync_memops);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return narrow((uint32_t)allocation->device->ordinal);
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return narrow(1);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return narrow(access_flags(allocation, address));
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return narrow(allocation->kind == NVS_ALLOCATION_PLAIN &&
			      nvs_chunks_exportable(allocation->device));
	/* What memory that moves can't be: nobody else may know where it is. */
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return narrow(0);
	default:
		return (struct nvs_answer){ .result = CUDA_ERROR_INVALID_VALUE };
	}
}

bool nvs_answer_attribute(CUdeviceptr address, CUpointer_attribute attribute,
			  struct nvs_answer *answer)
{
	struct nvs_allocation allocation;
	uint64_t number;

	if (!nvs_allocation_find(address, &allocation))
		return false;
	*answer = number_of(&allocation, address, attribute, &number)
			  ? wide(number)
			  : property_of(&allocation, address, attribute);
	return true;
}

bool nvs_answer_range(CUdeviceptr address, CUdeviceptr *start, uint64_t *bytes, CUresult *result)
{
	struct nvs_allocation allocation;

	if (!nvs_allocation_find(address, &allocation))
		return false;
	*start = allocation.start;
	*bytes = allocation.bytes;
	*result = reach_flags(&allocation, address) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
	return true;
}
