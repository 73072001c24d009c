/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is told about memory. The ranges are range.c's; protected by sim.lock. */
#include <string.h>

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

static struct answer host_pointer(const struct sim_range *range, uint64_t address)
{
	if (range && (is_host(range) || range->kind == SIM_RANGE_MANAGED))
		return answer_u64(address);
	return refuse(8);
}

static struct answer access_flags(const struct sim_range *range, const struct CUctx_st *context)
{
	if (!range)
		return refuse(4);
	return answer_u32(range->kind == SIM_RANGE_MAPPED ? range->access[context->device]
							  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static bool has_rights(const struct sim_range *range, const struct CUctx_st *context)
{
	return range->kind != SIM_RANGE_MAPPED ||
	       range->access[context->device] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/* What the driver calls the range of an address: for a mapping the reservation that it is in. */
static const struct sim_range *whole_locked(const struct sim_range *range)
{
	const struct sim_range *reservation =
		range->kind == SIM_RANGE_MAPPED ? sim_reservation_find_locked(range->start) : NULL;

	return reservation ? reservation : range;
}

static struct answer attribute_locked(CUpointer_attribute attribute, uint64_t address,
				      const struct CUctx_st *context)
{
	const struct sim_range *range = sim_range_live_locked(address);

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		if (!range)
			return refuse(8);
		return answer_u64((uint64_t)(uintptr_t)range->context);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return range ? answer_u32(is_host(range) ? CU_MEMORYTYPE_HOST
							 : CU_MEMORYTYPE_DEVICE)
			     : refuse(4);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return range && has_rights(range, context) ? answer_u64(address) : refuse(8);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return host_pointer(range, address);
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return range ? answer_u32((uint32_t)range->sync_memops) : refuse(4);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return range ? answer_u64(range->id) : refuse(8);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return range ? answer_bool(range->kind == SIM_RANGE_MANAGED) : refuse(1);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return range ? (struct answer){ .value.i32 = range->device, .bytes = 4 }
			     : refuse(4);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return range ? answer_u64(whole_locked(range)->start) : refuse(8);
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return range ? answer_u64(range->start) : refuse(8);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return range ? answer_u64(whole_locked(range)->requested_bytes) : refuse(8);
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return range ? answer_u64(range->span) : refuse(8);
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return range ? answer_bool(true) : refuse(1);
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		if (!range)
			return refuse(8);
		return answer_u64(
			range->physical ? (uint64_t)range->physical->properties.handle_types : 0);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return range ? answer_bool(range->kind == SIM_RANGE_DEVICE && !range->pool)
			     : refuse(1);
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return answer_bool(false);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return access_flags(range, context);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return range ? answer_u64((uint64_t)(uintptr_t)range->pool) : refuse(8);
	default:
		return refuse(0);
	}
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
