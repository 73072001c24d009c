/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the lock of the program's allocations, which also protects what regions.c, slabs.c and
 * addresses.c own; it is signalled when a free is over, and held neither while the driver is called
 * nor while a thread waits for room or for the mover.
 *
 * A free is in two steps: the allocation is marked as leaving, and when everything that may use it
 * has ended, it is taken away. So of two frees one finds it leaving, and fails.
 */
#include "memory/swap/allocations.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/swap/addresses.h"
#include "memory/swap/chunks.h"
#include "memory/swap/regions.h"
#include "memory/swap/idle.h"
#include "memory/swap/runs.h"
#include "memory/swap/slabs.h"
#include "process/mutex.h"
#include "process/thread.h"

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_ALLOCATIONS);

/* With the lock held: the small allocation that the address lies in; NULL: none. */
static struct nvs_small *small_at(const struct nvs_region *region, CUdeviceptr address)
{
	struct nvs_small *small = nvs_small_at(region->slab, address);

	return small && !small->leaving ? small : NULL;
}

/* With the lock held. */
static bool describe(const struct nvs_region *region, CUdeviceptr address,
		     struct nvs_allocation *found)
{
	const struct nvs_small *small;

	if (!region || region->leaving)
		return false;
	*found = region->allocation;
	if (!region->slab)
		return true;
	small = small_at(region, address);
	if (!small)
		return false;
	found->start = nvs_small_start(small);
	found->bytes = small->bytes;
	found->id = small->id;
	found->sync_memops = small->sync_memops;
	return true;
}

bool nvs_allocation_find(CUdeviceptr address, struct nvs_allocation *found)
{
	NVS_HOLD(&lock);
	return describe(nvs_addresses_find(address), address, found);
}

bool nvs_allocation_set_sync_memops(CUdeviceptr address, bool sync_memops)
{
	struct nvs_allocation allocation;
	struct nvs_region *region;

	NVS_HOLD(&lock);
	region = nvs_addresses_find(address);
	if (!describe(region, address, &allocation) || allocation.kind == NVS_ALLOCATION_MAPPING)
		return false;
	if (region->slab)
		small_at(region, address)->sync_memops = sync_memops;
	else
		region->allocation.sync_memops = sync_memops;
	return true;
}

/* It is to be found, or it goes again. */
static CUresult settle(struct nvs_region *region)
{
	bool settled;

	nvs_mutex_lock(&lock);
	settled = nvs_region_settle(region);
	nvs_mutex_unlock(&lock);
	if (settled)
		return CUDA_SUCCESS;
	nvs_region_drop(region);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult alloc_large(struct nvs_device *device, CUcontext context, uint64_t bytes,
			    CUdeviceptr *pointer)
{
	struct nvs_region *region;
	CUresult result = nvs_region_make(device, context, bytes, &region);
	CUdeviceptr start;

	if (result != CUDA_SUCCESS)
		return result;
	start = region->allocation.start;
	result = settle(region);
	if (result == CUDA_SUCCESS)
		*pointer = start;
	return result;
}

/* One more slab for the context's small allocations. */
static CUresult add_slab(struct nvs_device *device, CUcontext context)
{
	struct nvs_region *region;
	CUresult result = nvs_region_make(device, context, NVS_SLAB_BYTES, &region);

	if (result != CUDA_SUCCESS)
		return result;
	region->slab = nvs_slab_make(region->allocation.start, region);
	if (region->slab)
		return settle(region);
	nvs_region_drop(region);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool take_small(CUcontext context, uint64_t bytes, CUdeviceptr *pointer)
{
	struct nvs_small *small;
	struct nvs_owner *owner;

	NVS_HOLD(&lock);
	owner = nvs_owner_of(context);
	small = owner ? nvs_small_take(&owner->slabs, (uint32_t)bytes) : NULL;
	if (!small)
		return false;
	small->id = nvs_allocation_next_id();
	*pointer = nvs_small_start(small);
	return true;
}

static CUresult alloc_small(struct nvs_device *device, CUcontext context, uint64_t bytes,
			    CUdeviceptr *pointer)
{
	CUresult result = CUDA_SUCCESS;

	/* Others may take the new slab before this thread does. */
	while (result == CUDA_SUCCESS && !take_small(context, bytes, pointer))
		result = add_slab(device, context);
	return result;
}

/*
 * A primary context comes again at the address of the one that ended: what is allocated in it must
 * not be swept away with what the former one had.
 */
static void await_life(CUcontext context)
{
	const struct nvs_owner *owner;

	NVS_HOLD(&lock);
	while ((owner = nvs_owner_find(context)) && owner->ending)
		nvs_mutex_wait(&lock);
}

CUresult nvs_allocation_make(struct nvs_device *device, uint64_t bytes, CUdeviceptr *pointer)
{
	CUcontext context = NULL;
	CUresult result = NVS_CALL(cuCtxGetCurrent, &context);

	if (result == CUDA_SUCCESS)
		result = nvs_idle_check(context);
	if (result != CUDA_SUCCESS)
		return result;
	await_life(context);
	return bytes <= NVS_SMALL_BYTES ? alloc_small(device, context, bytes, pointer)
					: alloc_large(device, context, bytes, pointer);
}

/* With the lock held. NULL: nothing to free starts there. */
static struct nvs_region *begin_free(CUdeviceptr start, struct nvs_small **small)
{
	struct nvs_region *region = nvs_addresses_find(start);
	struct nvs_allocation allocation;

	if (!describe(region, start, &allocation) || allocation.start != start ||
	    allocation.kind != NVS_ALLOCATION_PLAIN)
		return NULL;
	*small = region->slab ? small_at(region, start) : NULL;
	if (*small)
		(*small)->leaving = true;
	else
		region->leaving = true;
	region->owner->leaving++;
	return region;
}

/* With the lock held. Answers what is to be dropped; NULL: nothing. */
static struct nvs_region *end_free(struct nvs_region *region, struct nvs_small *small, bool done)
{
	struct nvs_slab *empty = NULL;

	region->owner->leaving--;
	nvs_mutex_changed(&lock);
	if (!done) {
		if (small)
			small->leaving = false;
		else
			region->leaving = false;
		return NULL;
	}
	if (small) {
		empty = nvs_small_give(&region->owner->slabs, small);
		if (!empty)
			return NULL;
		region = empty->region;
	}
	nvs_region_unsettle(region);
	return region;
}

bool nvs_allocation_free(CUdeviceptr start, CUresult *result)
{
	struct nvs_small *small;
	struct nvs_region *region, *dropped;

	nvs_mutex_lock(&lock);
	region = begin_free(start, &small);
	nvs_mutex_unlock(&lock);
	if (!region)
		return false;
	*result = nvs_idle_wait(region->allocation.context);
	nvs_mutex_lock(&lock);
	dropped = end_free(region, small, *result == CUDA_SUCCESS);
	nvs_mutex_unlock(&lock);
	if (dropped)
		nvs_region_drop(dropped);
	return true;
}

struct nvs_owner *nvs_allocations_context_ending(CUcontext context)
{
	struct nvs_owner *owner;

	NVS_HOLD(&lock);
	owner = context ? nvs_owner_find(context) : NULL;
	if (owner)
		owner->ending++;
	return owner;
}

void nvs_allocations_context_ended(struct nvs_owner *owner, bool gone)
{
	struct nvs_region *region;

	if (!owner)
		return;
	nvs_cancel_off();
	nvs_mutex_lock(&lock);
	/* Who frees one just now waits for the context, and finds it ended. */
	while (gone && owner->leaving)
		nvs_mutex_wait(&lock);
	while (gone && (region = nvs_owner_take(owner))) {
		nvs_mutex_unlock(&lock);
		nvs_region_drop(region);
		nvs_mutex_lock(&lock);
	}
	if (gone)
		owner->context = NULL;
	owner->ending--;
	nvs_mutex_changed(&lock);
	nvs_mutex_unlock(&lock);
	nvs_cancel_on();
}

bool nvs_allocation_note_opened(const struct nvs_allocation *allocation)
{
	struct nvs_region *region = calloc(1, sizeof(*region));

	if (!region)
		return false;
	region->allocation = *allocation;
	return settle(region) == CUDA_SUCCESS;
}

bool nvs_allocation_note(struct nvs_device *device, CUdeviceptr start, uint64_t bytes)
{
	return nvs_allocation_note_opened(&(struct nvs_allocation){
		.kind = NVS_ALLOCATION_MAPPING,
		.start = start,
		.bytes = bytes,
		.device = device,
		.mapping = start,
		.mapping_bytes = bytes,
	});
}

void nvs_allocation_forget(CUdeviceptr start)
{
	struct nvs_region *region;

	nvs_mutex_lock(&lock);
	region = nvs_addresses_find(start);
	if (region && !region->owner && region->allocation.mapping == start)
		nvs_region_unsettle(region);
	else
		region = NULL;
	nvs_mutex_unlock(&lock);
	free(region);
}

bool nvs_allocation_pin(CUdeviceptr start, uint64_t bytes)
{
	struct nvs_region *region;

	/* Nothing of it is moving, so nobody is waited for for long. */
	NVS_HOLD(&lock);
	region = nvs_addresses_find(start);
	return region && region->run &&
	       nvs_run_pin(region->run, start - region->allocation.mapping, bytes);
}

bool nvs_allocation_enter(CUdeviceptr start, unsigned long long id, uint32_t index,
			  struct nvs_allocation_part *part)
{
	struct nvs_allocation allocation;
	struct nvs_region *region;

	/* It is pinned: only who reads it or gives access to it has it in hand, for a short time.
	 */
	NVS_HOLD(&lock);
	region = nvs_addresses_find(start);
	if (!describe(region, start, &allocation) || allocation.start != start ||
	    allocation.id != id || !region->run || index >= region->run->count)
		return false;
	*part = (struct nvs_allocation_part){ region->run->chunks[index],
					      (uint32_t)region->run->count,
					      start - allocation.mapping };
	nvs_chunk_enter(part->chunk);
	return true;
}

void nvs_allocations_forked(void)
{
	nvs_mutex_forked(&lock);
	nvs_regions_forked();
}
