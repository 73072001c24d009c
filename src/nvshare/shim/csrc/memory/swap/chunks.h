/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: device memory that moves as a whole, and where each of them is. Who makes one
 * (allocations.c for the program's plain memory, the hooks of its own virtual memory) asks for room
 * first (room.h) and gets device memory or, while the gate is closed, none yet. The mover alone
 * brings chunks out and in, one at a time per device. A chunk keeps its addresses through all of
 * it.
 *
 * Nothing that runs on the device may need what is out: the mover takes chunks out only while the
 * gate is closed and drained, and lets the gate open only when the room's sums say that everything
 * is resident (a thread that was given NVS_ROOM_OUT counts there before its chunk is here).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memory/swap/chunk.h"
#include "memory/swap/places.h"

/*
 * `ended` is told of every chunk that ends, when it is nobody's any more: its granules go back.
 * From any thread, without a lock; to be set before the first chunk is made.
 */
void nvs_chunks_on_end(void (*ended)(struct nvs_chunk *chunk));

/*
 * For the mover's thread of a device, with a context of it current. Between a begin and its end the
 * chunk is MOVING: frees of it wait.
 */

/*
 * The chunk that should leave next: clean ones first, then those that have been here for the
 * longest. It is still mapped. One that needs more than `host_bytes` of new host memory for its
 * copy is passed over (clean ones, nvs_chunk_is_clean, and those with granules need none). NULL:
 * none that may leave.
 */
struct nvs_chunk *nvs_chunk_begin_out(struct nvs_device *device, uint64_t host_bytes);
/*
 * It was copied or is clean: its device memory is given back; HOST if host_copy, else NOWHERE.
 * Anything but CUDA_SUCCESS: the driver does not take it, and the chunk is as it was.
 */
CUresult nvs_chunk_out(struct nvs_chunk *chunk);
/* Nothing was changed: DEVICE. */
void nvs_chunk_stays(struct nvs_chunk *chunk);
/* Whether a chunk of at most so many bytes is out. */
bool nvs_chunk_fits(struct nvs_device *device, uint64_t most_bytes);
/*
 * A chunk that is out gets device memory, mapped at its addresses, with the accesses that it had.
 * Waits for threads of the program that work on one; one of more than `most_bytes` is passed over.
 * NULL: none is out (*result CUDA_SUCCESS), or the driver's error is in *result and nothing was
 * changed.
 */
struct nvs_chunk *nvs_chunk_begin_in(struct nvs_device *device, uint64_t most_bytes,
				     CUresult *result);
/* Its contents are there, or it has none: DEVICE, and clean. */
void nvs_chunk_in(struct nvs_chunk *chunk);
/* They are not: the device memory is given back, the host copy is what it was. */
void nvs_chunk_back(struct nvs_chunk *chunk);

/* Sums of a device; chunks in the mover's hands count as resident. */
uint64_t nvs_chunks_resident(const struct nvs_device *device);
/* Without device memory, with contents or not. */
uint64_t nvs_chunks_out_bytes(const struct nvs_device *device);
/* Of what is out or on the way in, what had contents, which only the host copies have now. */
uint64_t nvs_chunks_swapped_bytes(const struct nvs_device *device);

/*
 * For who makes chunks: threads of the program. Functions that call the driver want a context of
 * the device current where the driver does. A thread that has entered a chunk must not wait for the
 * gate or for room: the mover waits for it.
 */

/*
 * A chunk for which room was given: `resident`: with device memory (anything but CUDA_SUCCESS is
 * the driver's refusal), else NOWHERE. It is entered. `prop` NULL: plain memory of the device.
 */
CUresult nvs_chunk_create(struct nvs_device *device, uint64_t bytes,
			  const CUmemAllocationProp_v1 *prop, bool resident,
			  struct nvs_chunk **chunk);
/* Waits until nobody else works on the chunk; from then on the mover leaves it alone. */
void nvs_chunk_enter(struct nvs_chunk *chunk);
/* The mover may have it again; it is told of one that is out. */
void nvs_chunk_leave(struct nvs_chunk *chunk);
/*
 * Takes an entered chunk away for good: unmaps what is mapped, gives its device memory and its room
 * back, tells the listener. The addresses stay reserved: they are the caller's.
 */
void nvs_chunk_end(struct nvs_chunk *chunk);
/*
 * Of an entered chunk: it can't move from now on (exported), and its room is told. False: it is
 * out, so it has to come in first: leave it and pass the gate.
 */
bool nvs_chunk_pin(struct nvs_chunk *chunk);

/*
 * Devices that may reach the device's plain memory beside itself (a bit for every ordinal): what is
 * there now as well as what is made later.
 */
CUresult nvs_chunks_allow(struct nvs_device *device, uint64_t peers);
uint64_t nvs_chunks_allowed(const struct nvs_device *device);

/* Whether descriptors can be had of the device's plain memory, which other processes may map. */
bool nvs_chunks_exportable(const struct nvs_device *device);

/* In a forked child: nothing of it is the child's. */
void nvs_chunks_forked(void);
