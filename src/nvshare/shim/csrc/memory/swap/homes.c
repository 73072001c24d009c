/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of owners, and the numbers of blocks. The lock of blocks.c protects both, and what
 * they lead to.
 */
#include "memory/swap/homes.h"

#include <stdlib.h>

#include "memory/swap/addresses.h"
#include "memory/swap/extents.h"

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

static void link_home(struct nvs_home *home)
{
	struct nvs_owner *owner = home->owner;

	home->after = owner->first;
	if (home->after)
		home->after->before = home;
	owner->first = home;
}

static void unlink_home(struct nvs_home *home)
{
	if (home->after)
		home->after->before = home->before;
	if (home->before)
		home->before->after = home->after;
	else
		home->owner->first = home->after;
}

struct nvs_home *nvs_owner_take(struct nvs_owner *owner)
{
	struct nvs_slab *slab = nvs_slab_take(&owner->slabs);
	struct nvs_home *home = slab ? slab->home : owner->first;

	if (home)
		nvs_home_unsettle(home);
	return home;
}

unsigned long long nvs_block_next_id(void)
{
	return ++last_id;
}

CUresult nvs_home_make(struct nvs_device *device, CUcontext context, uint64_t bytes,
		       struct nvs_home **made)
{
	struct nvs_home *home = calloc(1, sizeof(*home));
	CUresult result;

	if (!home)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = nvs_extent_make(device, bytes, &home->extent);
	if (result != CUDA_SUCCESS) {
		free(home);
		return result;
	}
	home->block = (struct nvs_block){
		.kind = NVS_BLOCK_PLAIN,
		.start = home->extent->start,
		.bytes = bytes,
		.device = device,
		.context = context,
		.mapping = home->extent->start,
		.mapping_bytes = home->extent->bytes,
	};
	*made = home;
	return CUDA_SUCCESS;
}

/* Puts it with its owner. */
static bool join_owner(struct nvs_home *home)
{
	home->owner = nvs_owner_of(home->block.context);
	if (!home->owner)
		return false;
	if (home->slab)
		return nvs_slab_add(&home->owner->slabs, home->slab);
	link_home(home);
	return true;
}

bool nvs_home_settle(struct nvs_home *home)
{
	if (!nvs_addresses_set(home->block.mapping, home->block.mapping_bytes, home))
		return false;
	if (home->block.kind == NVS_BLOCK_PLAIN && !join_owner(home)) {
		nvs_addresses_clear(home->block.mapping, home->block.mapping_bytes);
		return false;
	}
	home->block.id = home->block.mapping_id = nvs_block_next_id();
	return true;
}

void nvs_home_unsettle(struct nvs_home *home)
{
	if (home->owner && !home->slab)
		unlink_home(home);
	nvs_addresses_clear(home->block.mapping, home->block.mapping_bytes);
}

void nvs_home_drop(struct nvs_home *home)
{
	if (home->extent)
		nvs_extent_end(home->extent);
	free(home->slab);
	free(home);
}

void nvs_homes_forked(void)
{
	/*
	 * What the parent had stays allocated: a thread that the child has not may have been in the
	 * middle of changing it.
	 */
	owners = NULL;
	nvs_addresses_forget();
}
