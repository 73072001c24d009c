/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's allocations by address. One of plain memory has its own reservation of
 * addresses and is made of chunks; a small one (slabs.h) lies in a chunk with others. The program's
 * own mappings of virtual memory are noted here as well, so that every question about an address
 * has one place to be answered from. Any thread may call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "memory/swap/allocation.h"

struct nvs_chunk;
struct nvs_device;
struct nvs_owner;

/* The allocation that the address lies in, at its start or inside. False: none of ours. */
bool nvs_allocation_find(CUdeviceptr address, struct nvs_allocation *found);

/*
 * Plain memory, more than 0 bytes, on the device, in the context that is current, with the room
 * that the scheduler gives: resident, or without device memory while the gate is closed.
 */
CUresult nvs_allocation_make(struct nvs_device *device, uint64_t bytes, CUdeviceptr *pointer);
/*
 * Frees plain memory by its start, after all work of its context has ended, as cuMemFree does;
 * waits while the mover has a chunk of it. False: no allocation starts there (any more): the driver
 * is to say what is wrong.
 */
bool nvs_allocation_free(CUdeviceptr start, CUresult *result);
/*
 * Before a call that may end the context: nothing is allocated in it, or in one that comes at its
 * address, until nvs_allocations_context_ended is given what this returned. NULL: it has nothing.
 */
struct nvs_owner *nvs_allocations_context_ending(CUcontext context);
/* After it; `gone`: it was ended, and its allocations with it, of which nothing was unmapped yet.
 */
void nvs_allocations_context_ended(struct nvs_owner *owner, bool gone);

/* The program mapped a handle of its own there: whole granules. False: no host memory. */
bool nvs_allocation_note(struct nvs_device *device, CUdeviceptr start, uint64_t bytes);
/* The same for an allocation whose mapping was made already, of memory of others (opens.h). */
bool nvs_allocation_note_opened(const struct nvs_allocation *allocation);
/* Either is unmapped; `start` is of its mapping. */
void nvs_allocation_forget(CUdeviceptr start);
/* Of plain memory, or of another process. False: no such allocation. */
bool nvs_allocation_set_sync_memops(CUdeviceptr address, bool sync_memops);

/*
 * The chunks of a plain allocation that these addresses lie in can't move from now on; the caller
 * has passed the gate of the device. False: one is out.
 */
bool nvs_allocation_pin(CUdeviceptr start, uint64_t bytes);
/* A chunk of a plain allocation, and where the allocation is in it. */
struct nvs_allocation_part {
	struct nvs_chunk *chunk;
	uint32_t count;	 /* of chunks that the allocation has */
	uint64_t offset; /* of the allocation in the first one */
};
/*
 * Enters one of the chunks of the allocation that starts there and has this id, from 0 on; the
 * caller leaves it (nvs_chunk_leave). False: there is none (any more).
 */
bool nvs_allocation_enter(CUdeviceptr start, unsigned long long id, uint32_t index,
			  struct nvs_allocation_part *part);

/* In a forked child. */
void nvs_allocations_forked(void);
