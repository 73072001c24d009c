/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: what the table of addresses leads to, reserved addresses with chunks mapped all over
 * them that are an allocation or a slab with many, or a mapping of the program's; and owners: the
 * contexts with which they end. All but making and dropping a region is done with the lock of
 * allocations.c held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "memory/swap/allocation.h"
#include "memory/swap/slabs.h"

struct nvs_run;

struct nvs_region {
	struct nvs_allocation allocation; /* of a slab: what all allocations in it have in common */
	struct nvs_owner *owner;	  /* NULL: a mapping of the program's */
	struct nvs_slab *slab;		  /* NULL: one allocation */
	struct nvs_run *run;		  /* its memory; NULL: a mapping of the program's */
	bool leaving;			  /* a free of it goes on */
	struct nvs_region *before, *after; /* of the owner; slabs are in its `slabs` instead */
};

struct nvs_owner {
	CUcontext context; /* NULL: to be used again; it is never freed */
	struct nvs_slabs slabs;
	struct nvs_region *first;
	unsigned int leaving; /* frees that go on */
	unsigned int ending;  /* calls that may end the context */
	struct nvs_owner *next;
};

/* The context's; NULL: it has none. */
struct nvs_owner *nvs_owner_find(CUcontext context);
/* The same, made if there is none. NULL: no memory. */
struct nvs_owner *nvs_owner_of(CUcontext context);
/* Takes one region of the owner out of everything; NULL: it has none. */
struct nvs_region *nvs_owner_take(struct nvs_owner *owner);
/* A number for an allocation that there never was before. */
unsigned long long nvs_allocation_next_id(void);

/* With plain memory of its own, in no list yet. Without the lock: waits for room. */
CUresult nvs_region_make(struct nvs_device *device, CUcontext context, uint64_t bytes,
			 struct nvs_region **made);
/* It can be found from now on, and has its ids. False: no memory. */
bool nvs_region_settle(struct nvs_region *region);
/* A allocation of its own that has settled: the opposite. */
void nvs_region_unsettle(struct nvs_region *region);
/* One that nobody can find gives its memory back. Without the lock: waits for the mover. */
void nvs_region_drop(struct nvs_region *region);
/* In a forked child. */
void nvs_regions_forked(void);
