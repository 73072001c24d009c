/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the program's blocks, in pools of one context each, and the table of their addresses. `lock`
 * protects all of it, also what slabs.c and addresses.c own; `changed` is signalled when a free is
 * over. It is held neither while the driver is called nor while a thread waits for room or for a
 * chunk, and no thread is cancelled while it holds it.
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
#include "memory/swap/extents.h"
#include "memory/swap/idle.h"
#include "memory/swap/slabs.h"
#include "process/thread.h"

/* What the table of addresses leads to: a block, or a slab with many. */
struct home {
	struct nvs_block block; /* SLAB: of all blocks in it */
	struct pool *pool;	/* NULL: a mapping of the program's */
	struct nvs_slab *slab;	/* NULL: one block */
	struct nvs_extent *extent;
	bool leaving;
	struct home *before, *after; /* in the pool; slabs are in its `slabs` instead */
};

/* The blocks of a context; used again but never freed. */
struct pool {
	CUcontext context; /* NULL: to be used again */
	struct nvs_slabs slabs;
	struct home *first;
	unsigned int leaving; /* frees that go on */
	struct pool *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct pool *pools;
static unsigned long long last_id;

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

/* With the lock held. NULL: no memory. */
static struct pool *pool_of(CUcontext context)
{
	struct pool *pool, *unused = NULL;

	for (pool = pools; pool; pool = pool->next) {
		if (pool->context == context)
			return pool;
		if (!pool->context && !pool->leaving)
			unused = pool;
	}
	if (!unused) {
		unused = calloc(1, sizeof(*unused));
		if (!unused)
			return NULL;
		unused->next = pools;
		pools = unused;
	}
	unused->context = context;
	return unused;
}

/* With the lock held. */
static void link_home(struct home *home)
{
	struct pool *pool = home->pool;

	home->after = pool->first;
	if (home->after)
		home->after->before = home;
	pool->first = home;
}

/* With the lock held. */
static void unlink_home(struct home *home)
{
	if (home->after)
		home->after->before = home->before;
	if (home->before)
		home->before->after = home->after;
	else
		home->pool->first = home->after;
}

/* With the lock held: the small allocation that the address lies in; NULL: none. */
static struct nvs_small *small_at(const struct home *home, CUdeviceptr address)
{
	struct nvs_small *small = nvs_small_at(home->slab, address);

	return small && !small->leaving ? small : NULL;
}

/* With the lock held. */
static bool describe(const struct home *home, CUdeviceptr address, struct nvs_block *found)
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
	found->async = small->async;
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

bool nvs_block_set_async(CUdeviceptr address, bool async)
{
	struct nvs_block block;
	struct home *home;
	bool known;

	hold();
	home = nvs_addresses_find(address);
	known = describe(home, address, &block);
	if (known && home->slab)
		small_at(home, address)->async = async;
	else if (known)
		home->block.async = async;
	let_go();
	return known;
}

static void drop_home(struct home *home)
{
	if (home->extent)
		nvs_extent_end(home->extent);
	free(home->slab);
	free(home);
}

/* A home with memory of its own, in no list yet. */
static CUresult make_home(struct nvs_device *device, CUcontext context, uint64_t bytes,
			  struct home **made)
{
	struct home *home = calloc(1, sizeof(*home));
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

/* With the lock held: it can be found from now on. False: no memory. */
static bool enter_address(struct home *home)
{
	if (!nvs_addresses_set(home->block.mapping, home->block.mapping_bytes, home))
		return false;
	home->block.id = ++last_id;
	home->block.mapping_id = last_id;
	return true;
}

/* The same for one of plain memory. */
static bool settle(struct home *home)
{
	home->pool = pool_of(home->block.context);
	return home->pool && enter_address(home);
}

static CUresult alloc_large(struct nvs_device *device, CUcontext context, uint64_t bytes,
			    CUdeviceptr *pointer)
{
	struct home *home;
	CUresult result = make_home(device, context, bytes, &home);
	bool settled;

	if (result != CUDA_SUCCESS)
		return result;
	hold();
	settled = settle(home);
	if (settled)
		link_home(home);
	let_go();
	if (!settled) {
		drop_home(home);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*pointer = home->block.start;
	return CUDA_SUCCESS;
}

/* One more slab for the context's small allocations. */
static CUresult add_slab(struct nvs_device *device, CUcontext context)
{
	struct home *home;
	CUresult result = make_home(device, context, NVS_SLAB_BYTES, &home);
	bool settled;

	if (result != CUDA_SUCCESS)
		return result;
	home->slab = nvs_slab_make(home->block.start, home);
	hold();
	settled = home->slab && settle(home);
	if (settled && !nvs_slab_add(&home->pool->slabs, home->slab)) {
		nvs_addresses_clear(home->block.mapping, home->block.mapping_bytes);
		settled = false;
	}
	let_go();
	if (settled)
		return CUDA_SUCCESS;
	drop_home(home);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool take_small(CUcontext context, uint64_t bytes, CUdeviceptr *pointer)
{
	struct nvs_small *small = NULL;
	struct pool *pool;

	hold();
	pool = pool_of(context);
	if (pool)
		small = nvs_small_take(&pool->slabs, (uint32_t)bytes);
	if (small) {
		small->id = ++last_id;
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

CUresult nvs_block_alloc(struct nvs_device *device, uint64_t bytes, CUdeviceptr *pointer)
{
	CUcontext context = NULL;
	CUresult result = NVS_CALL(cuCtxGetCurrent, &context);

	if (result == CUDA_SUCCESS)
		result = nvs_idle_check(context);
	if (result != CUDA_SUCCESS)
		return result;
	return bytes <= NVS_SMALL_BYTES ? alloc_small(device, context, bytes, pointer)
					: alloc_large(device, context, bytes, pointer);
}

/* With the lock held. NULL: nothing to free starts there. */
static struct home *begin_free(CUdeviceptr start, struct nvs_small **small)
{
	struct home *home = nvs_addresses_find(start);
	struct nvs_block block;

	if (!describe(home, start, &block) || block.start != start || block.kind != NVS_BLOCK_PLAIN)
		return NULL;
	*small = home->slab ? small_at(home, start) : NULL;
	if (*small)
		(*small)->leaving = true;
	else
		home->leaving = true;
	home->pool->leaving++;
	return home;
}

/* With the lock held. Answers what is to be dropped; NULL: nothing. */
static struct home *end_free(struct home *home, struct nvs_small *small, bool done)
{
	struct nvs_slab *empty;

	home->pool->leaving--;
	pthread_cond_broadcast(&changed);
	if (!done) {
		if (small)
			small->leaving = false;
		else
			home->leaving = false;
		return NULL;
	}
	if (small) {
		empty = nvs_small_give(&home->pool->slabs, small);
		if (!empty)
			return NULL;
		home = empty->home;
	} else {
		unlink_home(home);
	}
	nvs_addresses_clear(home->block.mapping, home->block.mapping_bytes);
	return home;
}

bool nvs_block_free(CUdeviceptr start, CUresult *result)
{
	struct nvs_small *small;
	struct home *home, *dropped;

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
		drop_home(dropped);
	return true;
}

/* With the lock held: takes one home of the pool out; NULL: it is empty. */
static struct home *take_any(struct pool *pool)
{
	struct nvs_slab *slab = nvs_slab_take(&pool->slabs);
	struct home *home = slab ? slab->home : pool->first;

	if (!home)
		return NULL;
	if (!slab)
		unlink_home(home);
	nvs_addresses_clear(home->block.mapping, home->block.mapping_bytes);
	return home;
}

void nvs_blocks_context_gone(CUcontext context)
{
	struct pool *pool;
	struct home *home;

	hold();
	for (pool = pools; pool && pool->context != context;)
		pool = pool->next;
	/* Who frees one just now waits for the context, and finds it ended. */
	while (pool && pool->leaving)
		pthread_cond_wait(&changed, &lock);
	while (pool && (home = take_any(pool))) {
		pthread_mutex_unlock(&lock);
		drop_home(home);
		pthread_mutex_lock(&lock);
	}
	if (pool)
		pool->context = NULL;
	let_go();
}

bool nvs_block_note(struct nvs_device *device, CUdeviceptr start, uint64_t bytes)
{
	struct home *home = calloc(1, sizeof(*home));
	bool noted;

	if (!home)
		return false;
	home->block = (struct nvs_block){
		.kind = NVS_BLOCK_MAPPING,
		.start = start,
		.bytes = bytes,
		.device = device,
		.mapping = start,
		.mapping_bytes = bytes,
	};
	hold();
	noted = enter_address(home);
	let_go();
	if (!noted)
		free(home);
	return noted;
}

void nvs_block_forget(CUdeviceptr start)
{
	struct home *home;

	hold();
	home = nvs_addresses_find(start);
	if (home && !home->pool && home->block.start == start)
		nvs_addresses_clear(start, home->block.bytes);
	else
		home = NULL;
	let_go();
	free(home);
}

bool nvs_block_pin(CUdeviceptr start, uint64_t bytes)
{
	struct home *home;
	bool pinned;

	/* Nothing of it is moving, so nobody is waited for for long. */
	hold();
	home = nvs_addresses_find(start);
	pinned = home && home->extent && nvs_extent_pin(home->extent, start, bytes);
	let_go();
	return pinned;
}

void nvs_blocks_forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	/* What the parent had stays allocated: a thread that is not here may have been changing it.
	 */
	pools = NULL;
	nvs_addresses_forget();
}
