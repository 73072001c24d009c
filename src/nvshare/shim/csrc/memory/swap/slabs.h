/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small allocations: many of them in one slab of 2 MiB, aligned as the driver aligns. It knows
 * nothing of CUDA, slabs are given to it and come back from it, and it takes no lock: its caller's
 * protects it. Taking and giving take the same short time however many there are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* cdef begin */
#define NVS_SLAB_BYTES 2097152
#define NVS_SMALL_BYTES 1048576 /* what is larger has memory of its own */
#define NVS_SMALL_UNIT 512	/* alignment, and what sizes are rounded to */
#define NVS_SLAB_UNITS 4096
#define NVS_SLAB_CLASSES 81

/* A run of units of a slab: a small allocation, or what is free between two. */
struct nvs_small {
	struct nvs_slab *slab;
	uint32_t first; /* unit */
	uint32_t units;
	bool used;
	/* Of one that is used, for its caller. */
	bool leaving;	  /* a free of it goes on */
	bool sync_memops; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as the program set it */
	uint32_t bytes;	  /* as the program asked for */
	uint64_t id;
	struct nvs_small *before, *after; /* with free runs of its class, or unused records */
};

struct nvs_slab {
	uint64_t start; /* address */
	void *region;	/* the caller's */
	uint32_t used_units;
	struct nvs_slab *before, *after;
	struct nvs_small *at[NVS_SLAB_UNITS]; /* the run that begins there */
	uint64_t begins[NVS_SLAB_UNITS / 64]; /* a bit for each of them */
};

/* All zero: empty. */
struct nvs_slabs {
	struct nvs_small *free[NVS_SLAB_CLASSES];
	uint64_t has_free[2];	  /* a bit for each class */
	struct nvs_small *unused; /* records */
	struct nvs_slab *first;
	struct nvs_slab
		*empty; /* one at most stays, so that taking and giving in turns costs nothing */
};

/* A slab at the address, not of any slabs yet; freed with free(3) by who gets it back. NULL: no
 * memory. */
struct nvs_slab *nvs_slab_make(uint64_t start, void *region);
/* It is there to be taken from. False: no memory, and the slab is still the caller's. */
bool nvs_slab_add(struct nvs_slabs *slabs, struct nvs_slab *slab);
/* 1 to NVS_SMALL_BYTES bytes; NULL: no slab has room (or no memory): one has to be added. */
struct nvs_small *nvs_small_take(struct nvs_slabs *slabs, uint32_t bytes);
uint64_t nvs_small_start(const struct nvs_small *small);
/* The allocation that the address, which is the slab's, lies in; NULL: it is free there. */
struct nvs_small *nvs_small_at(const struct nvs_slab *slab, uint64_t address);
/* It is free again. Answers a slab that is empty now and not kept: the caller's. */
struct nvs_slab *nvs_small_give(struct nvs_slabs *slabs, struct nvs_small *small);
/* Takes any slab away with all that is in it; NULL: none is left, and nothing is allocated. */
struct nvs_slab *nvs_slab_take(struct nvs_slabs *slabs);
/* cdef end */
