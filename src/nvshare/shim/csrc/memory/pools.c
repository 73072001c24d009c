/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the records of memory pools. `lock` protects the list and every record's sums; a record is
 * freed with the last allocation of a destroyed pool. The driver is asked before the lock is taken.
 */
#include "memory/pools.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/room.h"
#include "process/mutex.h"
#include "process/report.h"

struct nvs_pool {
	CUmemoryPool handle; /* NULL: destroyed */
	struct nvs_device *device;
	uint64_t live; /* bytes of its allocations in the book */
	/*
	 * what it keeps through a synchronization, as last measured: reserved, at most the
	 * threshold
	 */
	uint64_t kept;
	uint64_t charged;
	uint32_t allocations;
	struct nvs_pool *next;
};

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_POOLS);
static struct nvs_pool *pools;

static struct nvs_pool *find(CUmemoryPool handle)
{
	struct nvs_pool *pool = pools;

	while (pool && pool->handle != handle)
		pool = pool->next;
	return pool;
}

static uint64_t measure(CUmemoryPool handle)
{
	cuuint64_t reserved = 0, threshold = 0;

	if (NVS_CALL(cuMemPoolGetAttribute, handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
		     &threshold) != CUDA_SUCCESS ||
	    !threshold)
		return 0;
	if (NVS_CALL(cuMemPoolGetAttribute, handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
		     &reserved) != CUDA_SUCCESS)
		return 0;
	return reserved < threshold ? reserved : threshold;
}

/* With the lock held: what the footprint changes by. */
static int64_t recharge(struct nvs_pool *pool)
{
	uint64_t due = pool->live > pool->kept ? pool->live : pool->kept, before = pool->charged;

	pool->charged = due;
	return (int64_t)(due - before);
}

static void commit(struct nvs_device *device, int64_t change)
{
	nvs_report_bytes(device->ordinal, NVS_BYTES_POOLS, change);
	nvs_room_commit(device, 0, change);
}

/* With the lock held. */
static void drop_if_done(struct nvs_pool *pool)
{
	struct nvs_pool **link = &pools;

	if (pool->handle || pool->allocations)
		return;
	while (*link != pool)
		link = &(*link)->next;
	*link = pool->next;
	free(pool);
}

/* With the lock held: for one more allocation, so that whoever destroys the pool leaves it. */
static struct nvs_pool *take(CUmemoryPool handle)
{
	struct nvs_pool *pool = find(handle);

	if (pool)
		pool->allocations++;
	return pool;
}

struct nvs_pool *nvs_pool_use(CUmemoryPool handle, CUdeviceptr sample)
{
	struct nvs_pool *pool, *fresh;

	nvs_mutex_lock(&lock);
	pool = take(handle);
	nvs_mutex_unlock(&lock);
	if (pool || !handle)
		return pool;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return NULL;
	fresh->handle = handle;
	fresh->device = nvs_device_of_pointer(sample);
	nvs_mutex_lock(&lock);
	if (!find(handle) && fresh->device) {
		fresh->next = pools;
		pools = fresh;
		fresh = NULL;
	}
	pool = take(handle);
	nvs_mutex_unlock(&lock);
	free(fresh);
	return pool;
}

void nvs_pool_charge(struct nvs_pool *pool, struct nvs_entry *entry, struct nvs_device *reserved_on,
		     uint64_t reserved)
{
	CUmemoryPool grown;
	uint64_t kept = 0;
	int64_t change;

	entry->pool = pool;
	entry->device = pool->device->ordinal;
	nvs_account_add(entry);
	nvs_mutex_lock(&lock);
	pool->live += entry->bytes;
	grown = pool->live > pool->kept ? pool->handle : NULL;
	nvs_mutex_unlock(&lock);
	if (grown)
		kept = measure(grown);
	nvs_mutex_lock(&lock);
	/* One that was destroyed meanwhile keeps nothing. */
	if (grown && pool->handle)
		pool->kept = kept;
	change = recharge(pool);
	nvs_mutex_unlock(&lock);
	nvs_report_bytes(pool->device->ordinal, NVS_BYTES_POOLS, change);
	/* In one step: what counted twice for a moment would be room that nobody has asked for. */
	if (reserved_on == pool->device) {
		nvs_room_commit(reserved_on, reserved, change);
		return;
	}
	nvs_room_commit(pool->device, 0, change);
	nvs_room_commit(reserved_on, reserved, 0);
}

void nvs_pool_discharge(const struct nvs_entry *entry)
{
	struct nvs_pool *pool = entry->pool;
	struct nvs_device *device = pool->device;
	int64_t change;

	nvs_mutex_lock(&lock);
	pool->live -= entry->bytes;
	pool->allocations--;
	change = recharge(pool);
	drop_if_done(pool);
	nvs_mutex_unlock(&lock);
	commit(device, change);
}

/* The pool keeps so much now; `gone`: it is destroyed. */
static void keep(CUmemoryPool handle, uint64_t kept, bool gone)
{
	struct nvs_device *device = NULL;
	struct nvs_pool *pool;
	int64_t change = 0;

	nvs_mutex_lock(&lock);
	pool = find(handle);
	if (pool) {
		device = pool->device;
		pool->kept = kept;
		if (gone)
			pool->handle = NULL;
		change = recharge(pool);
		drop_if_done(pool);
	}
	nvs_mutex_unlock(&lock);
	if (device)
		commit(device, change);
}

void nvs_pool_changed(CUmemoryPool handle)
{
	keep(handle, measure(handle), false);
}

void nvs_pool_destroyed(CUmemoryPool handle)
{
	keep(handle, 0, true);
}

void nvs_pools_forked(void)
{
	nvs_mutex_forked(&lock);
	while (pools) {
		struct nvs_pool *pool = pools;

		pools = pool->next;
		free(pool);
	}
}
