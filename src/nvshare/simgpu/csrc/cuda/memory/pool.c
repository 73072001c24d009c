/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools and the allocations that streams make. A pool here keeps no memory: what is freed is
 * the device's again as soon as the stream has executed the free. Protected by sim.lock.
 */
#include "memory/pool.h"

#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "graph/graph_memory.h"
#include "stream/stream.h"

static struct CUmemPoolHandle_st *default_pools[SIM_MAX_DEVICES];
static struct CUmemPoolHandle_st *chosen_pools[SIM_MAX_DEVICES]; /* NULL: the default one */

static struct CUmemPoolHandle_st *new_pool_locked(int device, const CUmemPoolProps_v1 *properties)
{
	struct CUmemPoolHandle_st *pool = calloc(1, sizeof(*pool));

	pool->device = device;
	if (properties)
		pool->properties = *properties;
	for (int i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	sim_register_locked(pool, SIM_POOL);
	return pool;
}

static struct CUmemPoolHandle_st *default_pool_locked(int device)
{
	if (!default_pools[device])
		default_pools[device] = new_pool_locked(device, NULL);
	return default_pools[device];
}

static struct CUmemPoolHandle_st *chosen_pool_locked(int device)
{
	return chosen_pools[device] ? chosen_pools[device] : default_pool_locked(device);
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice_v1 dev)
{
	if (!pool_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	*pool_out = default_pool_locked(dev);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice_v1 dev)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	*pool = chosen_pool_locked(dev);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetMemPool(CUdevice_v1 dev, CUmemoryPool pool)
{
	CUresult result = CUDA_SUCCESS;

	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (sim_is_locked(pool, SIM_POOL) && pool->device == dev)
		chosen_pools[dev] = pool;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps_v1 *poolProps)
{
	if (!pool || !poolProps || poolProps->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    poolProps->handle_types != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sim_device_exists(poolProps->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*pool = new_pool_locked(poolProps->location.id, poolProps);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (!sim_is_locked(pool, SIM_POOL) || pool == default_pools[pool->device]) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		if (chosen_pools[pool->device] == pool)
			chosen_pools[pool->device] = NULL;
		/* the object stays for the memory that still belongs to it */
		sim_forget_locked(pool);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	bool valid;

	(void)minBytesToKeep;
	sim_lock();
	valid = sim_is_locked(pool, SIM_POOL);
	sim_unlock();
	return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* What an attribute is in the pool; *wide says whether it is 64 bits or an int. */
static void *attribute_of(struct CUmemPoolHandle_st *pool, CUmemPool_attribute attribute,
			  bool *wide)
{
	*wide = attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return &pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->release_threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used_bytes;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->high_bytes;
	default:
		return NULL;
	}
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	const void *place;
	bool wide;

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	place = sim_is_locked(pool, SIM_POOL) ? attribute_of(pool, attr, &wide) : NULL;
	if (place)
		memcpy(value, place, wide ? sizeof(uint64_t) : sizeof(int));
	sim_unlock();
	return place ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	void *place;
	bool wide;

	if (!value)
		return result;
	sim_lock();
	place = sim_is_locked(pool, SIM_POOL) ? attribute_of(pool, attr, &wide) : NULL;
	if (place && attr <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		memcpy(place, value, wide ? sizeof(uint64_t) : sizeof(int));
		result = CUDA_SUCCESS;
	} else if (place == &pool->high_bytes && *(const uint64_t *)value == 0) {
		pool->high_bytes = pool->used_bytes;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc_v1 *map, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	if (!map && count > 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(pool, SIM_POOL))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !sim_device_exists(map[i].location.id))
			result = CUDA_ERROR_INVALID_DEVICE;
		else
			pool->access[map[i].location.id] = (unsigned char)map[i].flags;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
				CUmemLocation_v1 *location)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sim_device_exists(location->id))
		return result;
	sim_lock();
	if (sim_is_locked(memPool, SIM_POOL)) {
		*flags = location->id == memPool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
							 : memPool->access[location->id];
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

static void count_locked(struct CUmemPoolHandle_st *pool, struct sim_range *range)
{
	range->used_bytes = &pool->used_bytes;
	pool->used_bytes += range->bytes;
	if (pool->used_bytes > pool->high_bytes)
		pool->high_bytes = pool->used_bytes;
}

/* If there is no memory, wait for the frees that are queued and try once more. */
static CUresult take_locked(struct CUstream_st *stream, struct CUmemPoolHandle_st *pool,
			    uint64_t bytes, CUdeviceptr_v2 *address)
{
	struct CUctx_st *context = stream->context;
	struct sim_range *range;
	CUresult result;

	if (pool->properties.max_bytes && pool->used_bytes + bytes > pool->properties.max_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_device_memory_locked(context, pool->device, bytes, &range);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		sim_context_idle_locked(context);
		result = sim_device_memory_locked(context, pool->device, bytes, &range);
	}
	if (result != CUDA_SUCCESS)
		return result;
	range->pool = pool;
	memcpy(range->access, pool->access, sizeof(range->access));
	count_locked(pool, range);
	*address = range->start;
	return CUDA_SUCCESS;
}

static CUresult allocate_locked(CUdeviceptr_v2 *dptr, size_t bytes, CUmemoryPool pool,
				CUstream handle)
{
	struct CUstream_st *stream;
	CUresult result = sim_stream_locked(handle, &stream);

	if (result == CUDA_SUCCESS)
		result = sim_capture_check_submit_locked(stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (pool && !sim_is_locked(pool, SIM_POOL))
		return CUDA_ERROR_INVALID_VALUE;
	if (!pool)
		pool = chosen_pool_locked(stream->context->device);
	if (stream->capture)
		return sim_graph_memory_capture_alloc_locked(stream, pool->device, bytes, dptr);
	result = sim_capture_check_unsafe_locked();
	return result == CUDA_SUCCESS ? take_locked(stream, pool, bytes, dptr) : result;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	CUresult result;

	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytesize == 0) {
		*dptr = 0;
		return CUDA_SUCCESS;
	}
	sim_lock();
	result = allocate_locked(dptr, bytesize, NULL, hStream);
	sim_unlock();
	return result;
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool,
				     CUstream hStream)
{
	CUresult result;

	if (!dptr || !pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytesize == 0) {
		*dptr = 0;
		return CUDA_SUCCESS;
	}
	sim_lock();
	result = allocate_locked(dptr, bytesize, pool, hStream);
	sim_unlock();
	return result;
}

CUresult sim_cuMemFreeAsync(CUdeviceptr_v2 dptr, CUstream hStream)
{
	struct sim_op op = { .kind = SIM_OP_FREE, .u.memory = { .address = dptr } };
	const struct sim_range *range;
	struct CUstream_st *stream;
	CUresult result;

	if (dptr == 0)
		return CUDA_SUCCESS;
	sim_lock();
	range = sim_range_live_locked(dptr);
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_submit_locked(stream);
	if (result == CUDA_SUCCESS && stream->capture)
		result = sim_graph_memory_is_locked(dptr) ? sim_capture_op_locked(stream, &op)
							  : CUDA_ERROR_INVALID_VALUE;
	else if (result == CUDA_SUCCESS && (!range || range->start != dptr ||
					    range->kind != SIM_RANGE_DEVICE || range->free_queued))
		result = CUDA_ERROR_INVALID_VALUE;
	/* what no stream allocated is freed like that, too */
	else if (result == CUDA_SUCCESS && !range->pool)
		result = sim_capture_check_unsafe_locked();
	if (result == CUDA_SUCCESS && !stream->capture) {
		sim_range_find_locked(dptr)->free_queued = true;
		sim_queue_locked(stream, &op);
	}
	sim_unlock();
	return result;
}

CUresult sim_free_run(const struct sim_op *op)
{
	struct sim_range *range;

	sim_lock();
	range = sim_range_live_locked(op->u.memory.address);
	if (range && range->start == op->u.memory.address)
		sim_range_drop_locked(range);
	sim_unlock();
	return CUDA_SUCCESS;
}
