/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of owners, and the numbers of allocations. The lock of allocations.c protects both,
 * and what they lead to.
 */
#include "memory/swap/regions.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "memory/swap/addresses.h"
#include "memory/swap/chunks.h"
#include "memory/swap/runs.h"

static struct nvs_owner *owners;
static unsigned long long last_id;

struct nvs_owner *nvs_owner_find(CUcontext context)
{
	struct nvs_owner *owner = owners;

	while (owner && owner->context != context)
		owner = owner->next;
	return owner;
}

struct nvs_owner *nvs_owner_of(CUcontext context)
{
	struct nvs_owner *owner = nvs_owner_find(context);

	if (owner)
		return owner;
	for (owner = owners; owner; owner = owner->next)
		if (!owner->context && !owner->leaving && !owner->ending)
			break;
	if (!owner) {
		owner = calloc(1, sizeof(*owner));
		if (!owner)
			return NULL;
		owner->next = owners;
		owners = owner;
	}
	owner->context = context;
	return owner;
}

static void link_region(struct nvs_region *region)
{
	struct nvs_owner *owner = region->owner;

	region->after = owner->first;
	if (region->after)
		region->after->before = region;
	owner->first = region;
}

static void unlink_region(struct nvs_region *region)
{
	if (region->after)
		region->after->before = region->before;
	if (region->before)
		region->before->after = region->after;
	else
		region->owner->first = region->after;
}

struct nvs_region *nvs_owner_take(struct nvs_owner *owner)
{
	struct nvs_slab *slab = nvs_slab_take(&owner->slabs);
	struct nvs_region *region = slab ? slab->region : owner->first;

	if (region)
		nvs_region_unsettle(region);
	return region;
}

unsigned long long nvs_allocation_next_id(void)
{
	return ++last_id;
}

static CUresult place(struct nvs_chunk *chunk, CUdeviceptr address)
{
	return nvs_chunk_map(chunk, address, true);
}

/* Reserves the addresses and fills them; on failure the region has what there is of it. */
static CUresult fill(struct nvs_region *region)
{
	uint64_t whole = region->run->given.bytes;
	CUdeviceptr start;
	CUresult result = NVS_CALL(cuMemAddressReserve, &start, whole, 0, 0, 0);

	if (result != CUDA_SUCCESS)
		return result;
	region->allocation.start = region->allocation.mapping = start;
	region->allocation.mapping_bytes = whole;
	return nvs_run_fill(region->run, NULL, start, place);
}

CUresult nvs_region_make(struct nvs_device *device, CUcontext context, uint64_t bytes,
			 struct nvs_region **made)
{
	struct nvs_region *region = calloc(1, sizeof(*region));
	CUresult result;

	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->allocation = (struct nvs_allocation){
		.kind = NVS_ALLOCATION_PLAIN, .bytes = bytes, .device = device, .context = context
	};
	result = nvs_run_begin(device, bytes, NVS_CHUNK_BYTES, &region->run);
	if (result == CUDA_SUCCESS)
		result = fill(region);
	if (result == CUDA_SUCCESS)
		*made = region;
	else
		nvs_region_drop(region);
	return result;
}

/* Puts it with its owner. */
static bool join_owner(struct nvs_region *region)
{
	region->owner = nvs_owner_of(region->allocation.context);
	if (!region->owner)
		return false;
	if (region->slab)
		return nvs_slab_add(&region->owner->slabs, region->slab);
	link_region(region);
	return true;
}

bool nvs_region_settle(struct nvs_region *region)
{
	if (!nvs_addresses_set(region->allocation.mapping, region->allocation.mapping_bytes,
			       region))
		return false;
	if (region->allocation.kind == NVS_ALLOCATION_PLAIN && !join_owner(region)) {
		nvs_addresses_clear(region->allocation.mapping, region->allocation.mapping_bytes);
		return false;
	}
	region->allocation.id = region->allocation.mapping_id = nvs_allocation_next_id();
	return true;
}

void nvs_region_unsettle(struct nvs_region *region)
{
	if (region->owner && !region->slab)
		unlink_region(region);
	nvs_addresses_clear(region->allocation.mapping, region->allocation.mapping_bytes);
}

void nvs_region_drop(struct nvs_region *region)
{
	if (region->run) {
		nvs_run_end(region->run);
		if (region->allocation.mapping_bytes)
			NVS_CALL(cuMemAddressFree, region->allocation.mapping,
				 region->allocation.mapping_bytes);
	}
	free(region->slab);
	free(region);
}

void nvs_regions_forked(void)
{
	/*
	 * What the parent had stays allocated: a thread that the child has not may have been in the
	 * middle of changing it.
	 */
	owners = NULL;
	nvs_addresses_forget();
}
