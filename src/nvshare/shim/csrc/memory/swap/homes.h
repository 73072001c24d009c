/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Homes: what the table of addresses leads to, a block or a slab with many; and owners: the
 * contexts with which they end. All but making and dropping a home is done with the lock of
 * blocks.c held.
 */
#ifndef NVSHARE_HOMES_H
#define NVSHARE_HOMES_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "memory/swap/block.h"
#include "memory/swap/slabs.h"

struct nvs_extent;

struct nvs_home {
	struct nvs_block block;		 /* of a slab: what all blocks in it have in common */
	struct nvs_owner *owner;	 /* NULL: a mapping of the program's */
	struct nvs_slab *slab;		 /* NULL: one block */
	struct nvs_extent *extent;	 /* NULL: a mapping of the program's */
	bool leaving;			 /* a free of it goes on */
	struct nvs_home *before, *after; /* of the owner; slabs are in its `slabs` instead */
};

struct nvs_owner {
	CUcontext context; /* NULL: to be used again; it is never freed */
	struct nvs_slabs slabs;
	struct nvs_home *first;
	unsigned int leaving; /* frees that go on */
	unsigned int ending;  /* calls that may end the context */
	struct nvs_owner *next;
};

/* The context's; NULL: it has none. */
struct nvs_owner *nvs_owner_find(CUcontext context);
/* The same, made if there is none. NULL: no memory. */
struct nvs_owner *nvs_owner_of(CUcontext context);
/* Takes one home of the owner out of everything; NULL: it has none. */
struct nvs_home *nvs_owner_take(struct nvs_owner *owner);
/* A number for a block that there never was before. */
unsigned long long nvs_block_next_id(void);

/* With plain memory of its own, in no list yet. Without the lock: waits for room. */
CUresult nvs_home_make(struct nvs_device *device, CUcontext context, uint64_t bytes,
		       struct nvs_home **made);
/* It can be found from now on, and has its ids. False: no memory. */
bool nvs_home_settle(struct nvs_home *home);
/* A block of its own that has settled: the opposite. */
void nvs_home_unsettle(struct nvs_home *home);
/* One that nobody can find gives its memory back. Without the lock: waits for the mover. */
void nvs_home_drop(struct nvs_home *home);
/* In a forked child. */
void nvs_homes_forked(void);

#endif
