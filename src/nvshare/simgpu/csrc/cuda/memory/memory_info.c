/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is told about memory. The ranges are range.c's; protected by sim.lock. */
#include <string.h>

#include "checkpoint/gate.h"
#include "memory/range.h"

#define NO_DEVICE (-2)

CUresult sim_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);
	uint64_t used, all;

	if (result != CUDA_SUCCESS)
		return result;
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_gate_now() == SIM_GATE_CHECKPOINTED)
		return CUDA_ERROR_OPERATING_SYSTEM;
	used = sim_state_used(&sim.state, context->device);
	all = sim_state_device(&sim.state, context->device)->total_bytes;
	*free = all - used;
	*total = all;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr_v2 *pbase, size_t *psize, CUdeviceptr_v2 dptr)
{
	const struct sim_range *range;
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	range = sim_range_live_locked(dptr);
	if (!range || range->kind == SIM_RANGE_REGISTERED) {
		result = CUDA_ERROR_NOT_FOUND;
	} else {
		if (pbase)
			*pbase = range->start;
		if (psize)
			*psize = range->requested_bytes;
	}
	sim_unlock();
	return result;
}

/* The widest answer to a pointer attribute, and how much of it the program expects. */
struct answer {
	union {
		uint64_t u64;
		uint64_t pair[2];
		uint32_t u32;
		int32_t i32;
		unsigned char byte;
	} value;
	size_t bytes;
	CUresult result;
};

static struct answer answer_u64(uint64_t value)
{
	return (struct answer){ .value.u64 = value, .bytes = 8 };
}

static struct answer answer_u32(uint32_t value)
{
	return (struct answer){ .value.u32 = value, .bytes = 4 };
}

static struct answer answer_bool(bool value)
{
	return (struct answer){ .value.byte = value, .bytes = 1 };
}

static struct answer refuse(size_t bytes)
{
	return (struct answer){ .bytes = bytes, .result = CUDA_ERROR_INVALID_VALUE };
}

static bool is_host(const struct sim_range *range)
{
	return range && (range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_REGISTERED ||
			 (range->kind == SIM_RANGE_MAPPED && range->physical->device < 0));
}

static bool is_seen(const struct sim_range *range)
{
	return is_host(range) || range->kind == SIM_RANGE_MANAGED;
}

/* CUmemAccess_flags. */
static uint32_t rights(const struct sim_range *range, const struct CUctx_st *context)
{
	return range->kind == SIM_RANGE_MAPPED ? range->access[context->device]
					       : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static bool has_rights(const struct sim_range *range, const struct CUctx_st *context)
{
	return rights(range, context) != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/* What the driver calls the range of an address: for a mapping the reservation that it is in. */
static const struct sim_range *whole_locked(const struct sim_range *range)
{
	const struct sim_range *reservation =
		range->kind == SIM_RANGE_MAPPED ? sim_reservation_find_locked(range->start) : NULL;

	return reservation ? reservation : range;
}

/* The numbers of 64 bits; false: it is none of them. */
static bool number_of_locked(const struct sim_range *range, CUpointer_attribute attribute,
			     uint64_t *number)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*number = (uintptr_t)range->context;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*number = range->id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*number = whole_locked(range)->start;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*number = range->start;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*number = whole_locked(range)->requested_bytes;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*number = range->span;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*number = range->physical ? (uint64_t)range->physical->properties.handle_types : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*number = (uintptr_t)range->pool;
		return true;
	default:
		return false;
	}
}

static struct answer property_of(const struct sim_range *range, CUpointer_attribute attribute,
				 uint64_t address, const struct CUctx_st *context)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return answer_u32(is_host(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return has_rights(range, context) ? answer_u64(address) : refuse(8);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return is_seen(range) ? answer_u64(address) : refuse(8);
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return answer_u32((uint32_t)range->sync_memops);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return answer_bool(range->kind == SIM_RANGE_MANAGED);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (struct answer){ .value.i32 = range->device, .bytes = 4 };
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return answer_bool(true);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return answer_bool(range->kind == SIM_RANGE_DEVICE && !range->pool);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return answer_u32(rights(range, context));
	default:
		return refuse(0);
	}
}

/* How many bytes are written where there is nothing at the address; others: none. */
static const unsigned char widths[] = {
	[CU_POINTER_ATTRIBUTE_CONTEXT] = 8,
	[CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = 4,
	[CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = 8,
	[CU_POINTER_ATTRIBUTE_HOST_POINTER] = 8,
	[CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = 4,
	[CU_POINTER_ATTRIBUTE_BUFFER_ID] = 8,
	[CU_POINTER_ATTRIBUTE_IS_MANAGED] = 1,
	[CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = 4,
	[CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = 1,
	[CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = 8,
	[CU_POINTER_ATTRIBUTE_RANGE_SIZE] = 8,
	[CU_POINTER_ATTRIBUTE_MAPPED] = 1,
	[CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = 8,
	[CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = 1,
	[CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = 4,
	[CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = 8,
	[CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = 8,
	[CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = 8,
	[CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID] = 8,
};

static struct answer attribute_locked(CUpointer_attribute attribute, uint64_t address,
				      const struct CUctx_st *context)
{
	const struct sim_range *range = sim_range_live_locked(address);
	uint64_t number;

	if (attribute == CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
		return answer_bool(false);
	if (!range)
		return refuse((size_t)attribute < sizeof(widths) ? widths[attribute] : 0);
	return number_of_locked(range, attribute, &number)
		       ? answer_u64(number)
		       : property_of(range, attribute, address, context);
}

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr_v2 ptr)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);
	struct answer answer;

	if (result != CUDA_SUCCESS)
		return result;
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	answer = attribute_locked(attribute, ptr, context);
	sim_unlock();
	if (answer.result == CUDA_SUCCESS)
		memcpy(data, &answer.value, answer.bytes);
	return answer.result;
}

CUresult sim_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				    void **data, CUdeviceptr_v2 ptr)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (numAttributes == 0 || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < numAttributes; i++) {
		struct answer answer = attribute_locked(attributes[i], ptr, context);

		if (answer.bytes == 0)
			result = CUDA_ERROR_INVALID_VALUE;
		else if (answer.result == CUDA_SUCCESS)
			memcpy(data[i], &answer.value, answer.bytes);
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = NO_DEVICE;
		else /* what does not apply to the pointer is zero, without an error */
			memset(data[i], 0, answer.bytes);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				   CUdeviceptr_v2 ptr)
{
	struct CUctx_st *context;
	struct sim_range *range;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_live_locked(ptr);
	if (!range)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (range->kind == SIM_RANGE_MAPPED)
		result = CUDA_ERROR_NOT_SUPPORTED;
	else
		range->sync_memops = *(const int *)value != 0;
	sim_unlock();
	return result;
}
