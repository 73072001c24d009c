/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the lock of the program's blocks, which also protects what homes.c, slabs.c and addresses.c
 * own; `changed` is signalled when a free is over. The lock is held neither while the driver is
 * called nor while a thread waits for room or for the mover, and no thread is cancelled while it
 * holds it.
 *
 * A free is in two steps: the block is marked as leaving, and when everything that may use it has
 * ended, it is taken away. So of two frees one finds it leaving, and fails.
 */
#include "memory/swap/blocks.h"

#include <pthread.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/swap/addresses.h"
#include "memory/swap/chunks.h"
#include "memory/swap/extents.h"
#include "memory/swap/homes.h"
#include "memory/swap/idle.h"
#include "memory/swap/slabs.h"
#include "process/thread.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void hold(void)
{
	nvs_cancel_off();
	pthread_mutex_lock(&lock);
}

static void let_go(void)
{
	pthread_mutex_unlock(&lock);
	nvs_cancel_on();
}

/* With the lock held: the small allocation that the address lies in; NULL: none. */
static struct nvs_small *small_at(const struct nvs_home *home, CUdeviceptr address)
{
	struct nvs_small *small = nvs_small_at(home->slab, address);

	return small && !small->leaving ? small : NULL;
}

/* With the lock held. */
static bool describe(const struct nvs_home *home, CUdeviceptr address, struct nvs_block *found)
{
	const struct nvs_small *small;

	if (!home || home->leaving)
		return false;
	*found = home->block;
	if (!home->slab)
		return true;
	small = small_at(home, address);
	if (!small)
		return false;
	found->start = nvs_small_start(small);
	found->bytes = small->bytes;
	found->id = small->id;
	found->sync_memops = small->sync_memops;
	return true;
}

bool nvs_block_find(CUdeviceptr address, struct nvs_block *found)
{
	bool known;

	hold();
	known = describe(nvs_addresses_find(address), address, found);
	let_go();
	return known;
}

bool nvs_block_set_sync_memops(CUdeviceptr address, bool sync_memops)
{
	struct nvs_block block;
	struct nvs_home *home;
	bool known;

	hold();
	home = nvs_addresses_find(address);
	known = describe(home, address, &block) && block.kind != NVS_BLOCK_MAPPING;
	if (known && home->slab)
		small_at(home, address)->sync_memops = sync_memops;
	else if (known)
		home->block.sync_memops = sync_memops;
	let_go();
	return known;
}

/* It is to be found, or it goes again. */
static CUresult settle(struct nvs_home *home)
{
	bool settled;

	hold();
	settled = nvs_home_settle(home);
	let_go();
	if (settled)
		return CUDA_SUCCESS;
	nvs_home_drop(home);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult alloc_large(struct nvs_device *device, CUcontext context, uint64_t bytes,
			    CUdeviceptr *pointer)
{
	struct nvs_home *home;
	CUresult result = nvs_home_make(device, context, bytes, &home);
	CUdeviceptr start;

	if (result != CUDA_SUCCESS)
		return result;
	start = home->block.start;
	result = settle(home);
	if (result == CUDA_SUCCESS)
		*pointer = start;
	return result;
}

/* One more slab for the context's small allocations. */
static CUresult add_slab(struct nvs_device *device, CUcontext context)
{
	struct nvs_home *home;
	CUresult result = nvs_home_make(device, context, NVS_SLAB_BYTES, &home);

	if (result != CUDA_SUCCESS)
		return result;
	home->slab = nvs_slab_make(home->block.start, home);
	if (home->slab)
		return settle(home);
	nvs_home_drop(home);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool take_small(CUcontext context, uint64_t bytes, CUdeviceptr *pointer)
{
	struct nvs_small *small = NULL;
	struct nvs_owner *owner;

	hold();
	owner = nvs_owner_of(context);
	if (owner)
		small = nvs_small_take(&owner->slabs, (uint32_t)bytes);
	if (small) {
		small->id = nvs_block_next_id();
		*pointer = nvs_small_start(small);
	}
	let_go();
	return small != NULL;
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

	hold();
	while ((owner = nvs_owner_find(context)) && owner->ending)
		pthread_cond_wait(&changed, &lock);
	let_go();
}

CUresult nvs_block_alloc(struct nvs_device *device, uint64_t bytes, CUdeviceptr *pointer)
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
static struct nvs_home *begin_free(CUdeviceptr start, struct nvs_small **small)
{
	struct nvs_home *home = nvs_addresses_find(start);
	struct nvs_block block;

	if (!describe(home, start, &block) || block.start != start || block.kind != NVS_BLOCK_PLAIN)
		return NULL;
	*small = home->slab ? small_at(home, start) : NULL;
	if (*small)
		(*small)->leaving = true;
	else
		home->leaving = true;
	home->owner->leaving++;
	return home;
}

/* With the lock held. Answers what is to be dropped; NULL: nothing. */
static struct nvs_home *end_free(struct nvs_home *home, struct nvs_small *small, bool done)
{
	struct nvs_slab *empty = NULL;

	home->owner->leaving--;
	pthread_cond_broadcast(&changed);
	if (!done) {
		if (small)
			small->leaving = false;
		else
			home->leaving = false;
		return NULL;
	}
	if (small) {
		empty = nvs_small_give(&home->owner->slabs, small);
		if (!empty)
			return NULL;
		home = empty->home;
	}
	nvs_home_unsettle(home);
	return home;
}

bool nvs_block_free(CUdeviceptr start, CUresult *result)
{
	struct nvs_small *small;
	struct nvs_home *home, *dropped;

	hold();
	home = begin_free(start, &small);
	let_go();
	if (!home)
		return false;
	*result = nvs_idle_wait(home->block.context);
	hold();
	dropped = end_free(home, small, *result == CUDA_SUCCESS);
	let_go();
	if (dropped)
		nvs_home_drop(dropped);
	return true;
}

struct nvs_owner *nvs_blocks_context_ending(CUcontext context)
{
	struct nvs_owner *owner;

	hold();
	owner = context ? nvs_owner_find(context) : NULL;
	if (owner)
		owner->ending++;
	let_go();
	return owner;
}

void nvs_blocks_context_ended(struct nvs_owner *owner, bool gone)
{
	struct nvs_home *home;

	if (!owner)
		return;
	hold();
	/* Who frees one just now waits for the context, and finds it ended. */
	while (gone && owner->leaving)
		pthread_cond_wait(&changed, &lock);
	while (gone && (home = nvs_owner_take(owner))) {
		pthread_mutex_unlock(&lock);
		nvs_home_drop(home);
		pthread_mutex_lock(&lock);
	}
	if (gone)
		owner->context = NULL;
	owner->ending--;
	pthread_cond_broadcast(&changed);
	let_go();
}

bool nvs_block_note_opened(const struct nvs_block *block)
{
	struct nvs_home *home = calloc(1, sizeof(*home));

	if (!home)
		return false;
	home->block = *block;
	return settle(home) == CUDA_SUCCESS;
}

bool nvs_block_note(struct nvs_device *device, CUdeviceptr start, uint64_t bytes)
{
	return nvs_block_note_opened(&(struct nvs_block){
		.kind = NVS_BLOCK_MAPPING,
		.start = start,
		.bytes = bytes,
		.device = device,
		.mapping = start,
		.mapping_bytes = bytes,
	});
}

void nvs_block_forget(CUdeviceptr start)
{
	struct nvs_home *home;

	hold();
	home = nvs_addresses_find(start);
	if (home && !home->owner && home->block.mapping == start)
		nvs_home_unsettle(home);
	else
		home = NULL;
	let_go();
	free(home);
}

bool nvs_block_pin(CUdeviceptr start, uint64_t bytes)
{
	struct nvs_home *home;
	bool pinned;

	/* Nothing of it is moving, so nobody is waited for for long. */
	hold();
	home = nvs_addresses_find(start);
	pinned = home && home->extent && nvs_extent_pin(home->extent, start, bytes);
	let_go();
	return pinned;
}

bool nvs_block_enter(CUdeviceptr start, unsigned long long id, uint32_t index,
		     struct nvs_block_part *part)
{
	struct nvs_block block;
	struct nvs_home *home;
	bool entered;

	/* It is pinned: only who reads it or gives access to it has it in hand, for a short time.
	 */
	hold();
	home = nvs_addresses_find(start);
	entered = describe(home, start, &block) && block.start == start && block.id == id &&
		  home->extent && index < home->extent->chunks_count;
	if (entered) {
		*part = (struct nvs_block_part){ home->extent->chunks[index],
						 home->extent->chunks_count,
						 start - block.mapping };
		nvs_chunk_enter(part->chunk);
	}
	let_go();
	return entered;
}

void nvs_blocks_forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	nvs_homes_forked();
}
