/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate and free. An allocation node gets its address when it is made; it
 * gets memory at each launch, and a free node or any other free takes it back. Addresses are not
 * given out twice. Protected by sim.lock.
 */
#include "graph/graph_memory.h"

#include <stdlib.h>

#include "capture/capture.h"
#include "memory/range.h"
#include "stream/stream.h"

static uint64_t used_bytes[SIM_MAX_DEVICES];
static uint64_t high_bytes[SIM_MAX_DEVICES];
/* The most that was used since the last trim: what a driver keeps, and calls reserved. */
static uint64_t kept_bytes[SIM_MAX_DEVICES];

uint64_t sim_graph_memory_reserve_locked(uint64_t bytes)
{
	uint64_t span = sim_round_up(bytes, SIM_GRANULARITY);
	uint64_t start = sim_window_take_locked(span, SIM_GRANULARITY, 0);

	if (start != 0)
		sim_reservation_add_locked(start, span)->of_graph = true;
	return start;
}

bool sim_graph_memory_is_locked(uint64_t address)
{
	const struct sim_range *reservation = sim_reservation_find_locked(address);

	return reservation && reservation->of_graph && reservation->start == address;
}

static void count_locked(int device, struct sim_range *range)
{
	range->used_bytes = &used_bytes[device];
	used_bytes[device] += range->bytes;
	if (used_bytes[device] > high_bytes[device])
		high_bytes[device] = used_bytes[device];
	if (used_bytes[device] > kept_bytes[device])
		kept_bytes[device] = used_bytes[device];
}

CUresult sim_graph_memory_capture_alloc_locked(struct CUstream_st *stream, int device,
					       uint64_t bytes, CUdeviceptr_v2 *address)
{
	struct sim_op op = { .kind = SIM_OP_ALLOC };
	struct CUgraphNode_st *node;

	op.u.memory.address = sim_graph_memory_reserve_locked(bytes);
	op.u.memory.bytes = bytes;
	if (op.u.memory.address == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node = sim_capture_node_locked(stream, &op);
	node->alloc = calloc(1, sizeof(*node->alloc));
	node->alloc->pool.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	node->alloc->pool.location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, device };
	node->alloc->bytes = bytes;
	node->alloc->ptr = op.u.memory.address;
	*address = op.u.memory.address;
	return CUDA_SUCCESS;
}

static CUresult take_one_locked(const struct sim_op *op, struct CUctx_st *context)
{
	uint64_t bytes = sim_round_up(op->u.memory.bytes, SIM_ALIGNMENT);
	struct sim_range *range;

	if (!sim_state_charge(&sim.state, context->device, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	range = sim_range_add_locked(SIM_RANGE_DEVICE, op->u.memory.address, bytes,
				     sim_round_up(bytes, SIM_GRANULARITY));
	range->requested_bytes = op->u.memory.bytes;
	range->charged_bytes = bytes;
	range->device = context->device;
	range->context = context;
	range->of_graph = true;
	count_locked(context->device, range);
	return CUDA_SUCCESS;
}

/* Whether an address still has its memory after the frees that are queued. */
static bool is_taken_locked(const struct CUgraphExec_st *exec, struct CUctx_st *context,
			    uint64_t address)
{
	const struct sim_range *range = sim_range_find_locked(address);

	if (!range)
		return false;
	sim_wait_locked(exec->last);
	range = sim_range_find_locked(address);
	if (range && range->free_queued)
		sim_context_idle_locked(context);
	return sim_range_find_locked(address) != NULL;
}

CUresult sim_graph_memory_take_locked(const struct CUgraphExec_st *exec, struct CUctx_st *context)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; result == CUDA_SUCCESS && i < exec->steps->count; i++) {
		const struct sim_op *op = &exec->steps->entries[i].op;

		if (op->kind != SIM_OP_ALLOC)
			continue;
		if (!is_taken_locked(exec, context, op->u.memory.address))
			result = take_one_locked(op, context);
		else if (!(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
			result = CUDA_ERROR_INVALID_VALUE;
	}
	return result;
}

CUresult sim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	if (!value || attr < CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ||
	    attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)
		*(uint64_t *)value = kept_bytes[device];
	else
		*(uint64_t *)value = attr == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
					     ? used_bytes[device]
					     : high_bytes[device];
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	if (!value || *(const uint64_t *)value != 0 ||
	    (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
	     attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	high_bytes[device] = used_bytes[device];
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGraphMemTrim(CUdevice device)
{
	if (!sim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	kept_bytes[device] = used_bytes[device];
	sim_unlock();
	return CUDA_SUCCESS;
}
