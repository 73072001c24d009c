/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chunk: its device memory and the addresses at which it is mapped. Whoever has the chunk in
 * hand calls these: the mover while it is MOVING, or a thread that has entered it (chunks.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "memory/swap/hash.h"

struct nvs_device;

#define NVS_GRANULE_BYTES (2u << 20)
#define NVS_CHUNK_BYTES (64u << 20)

enum nvs_place {
	NVS_PLACE_NOWHERE = 0, /* no device memory, and no contents, or zeros */
	NVS_PLACE_HOST = 1,    /* copied out, no device memory */
	NVS_PLACE_DEVICE = 2,
	NVS_PLACE_MOVING = 3, /* in the mover's hands, out or in */
};

/* Who may reach a mapping: a bit for every device's ordinal. */
struct nvs_access {
	uint64_t read_write;
	uint64_t read_only;
};

/* Private to chunk.c. */
struct nvs_mapping {
	CUdeviceptr address;
	struct nvs_access access;
	bool plain; /* its accesses are those of all plain memory of the device */
	struct nvs_mapping *next;
};

struct nvs_chunk {
	/* Never changes. */
	struct nvs_device *device;
	/* A multiple of the granule; above NVS_CHUNK_BYTES only if the program wants it in one. */
	uint64_t bytes;
	CUmemAllocationProp_v1 prop;

	/* Written by chunks.c with its lock; the mover reads them of the chunk in its hands. */
	int place;			     /* enum nvs_place */
	CUmemGenericAllocationHandle handle; /* 0: no device memory */
	unsigned int pins;		     /* not 0: must stay where it is */

	/*
	 * The submissions of the process (nvs_chunks_submissions) when its contents were last those
	 * of the host copy, or it had none; UINT64_MAX: never. Written by chunks.c.
	 */
	uint64_t clean_at;
	/*
	 * Written by the mover while it is MOVING: the granules have its contents of clean_at, and
	 * their hash; or all of the contents are zeros, of which there is no copy.
	 */
	bool host_copy, hashed, zeros;
	struct nvs_hash hash;
	/* How often in a row it had changed; so many times more it leaves without being hashed. */
	uint8_t changes, unhashed;
	/*
	 * In the arena, bytes / NVS_GRANULE_BYTES of them; NULL: none. The arena's; written with
	 * its lock. Kept while the chunk lives unless another one needs them.
	 */
	uint32_t *granules;

	/* The rest is for chunk.c and chunks.c alone. */
	bool had_contents;  /* that are not zeros: without a host copy it is not clean */
	bool entered;	    /* a thread of the program works on it */
	bool swapped;	    /* the host copy alone has its contents; places.c counts it */
	CUdeviceptr window; /* a mapping of ours while it moves; 0: none */
	uint64_t peers;	    /* that its plain mappings were given to */
	struct nvs_mapping *mappings;
	struct nvs_mapping first; /* most chunks have one mapping */
	struct nvs_chunk *before, *after;
};

/*
 * Managed memory of the program's own: it has its addresses without any call of ours, and moves by
 * being prefetched.
 */
static inline bool nvs_chunk_is_managed(const struct nvs_chunk *chunk)
{
	return chunk->prop.type == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

/*
 * These change the mappings; what is out is mapped so when it comes in. A mapping is of the whole
 * chunk, and nobody may reach it before nvs_chunk_set_access; `plain`: the device and those that
 * nvs_chunks_allow named may, from the start.
 */
CUresult nvs_chunk_map(struct nvs_chunk *chunk, CUdeviceptr address, bool plain);
CUresult nvs_chunk_unmap(struct nvs_chunk *chunk, CUdeviceptr address);
CUresult nvs_chunk_set_access(struct nvs_chunk *chunk, CUdeviceptr address,
			      const struct nvs_access *access);
/* The same; devices that are not named keep what they have. */
CUresult nvs_chunk_change_access(struct nvs_chunk *chunk, CUdeviceptr address,
				 const CUmemAccessDesc_v1 *desc, size_t count);
/* One device's, in the driver's words. */
unsigned long long nvs_access_flags(const struct nvs_access *access, int ordinal);
/* False: not mapped there. */
bool nvs_chunk_access(const struct nvs_chunk *chunk, CUdeviceptr address,
		      struct nvs_access *access);
/*
 * An address at which the device can reach the chunk while it moves. One that the program has
 * mapped nowhere, or may not write itself, gets a mapping of ours until the move ends. 0: the
 * driver refuses.
 */
CUdeviceptr nvs_chunk_address(struct nvs_chunk *chunk);

/* The rest is called by chunks.c. */

/* Makes device memory and maps it; anything but CUDA_SUCCESS: nothing was changed. */
CUresult nvs_chunk_make_memory(struct nvs_chunk *chunk);
/* Unmaps and releases it, of one that ends. Nothing if it has none. */
void nvs_chunk_drop_memory(struct nvs_chunk *chunk);
/*
 * The same of one whose mappings are remembered; anything but CUDA_SUCCESS: the driver does not
 * give it back, and nothing was changed.
 */
CUresult nvs_chunk_give_memory(struct nvs_chunk *chunk);
/* Ends the mapping of nvs_chunk_address. */
CUresult nvs_chunk_close_window(struct nvs_chunk *chunk);
/* chunk->peers has changed from what it was. */
CUresult nvs_chunk_apply_peers(struct nvs_chunk *chunk, uint64_t before);
/* Of a chunk that ends. */
void nvs_chunk_forget_mappings(struct nvs_chunk *chunk);
