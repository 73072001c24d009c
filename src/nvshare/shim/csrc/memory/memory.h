/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory as the program sees it: where it comes from (a backend), how much of it is whose
 * (the account), and what the program is told about it (the view). Any thread may call; no lock of
 * ours is held while the driver is called.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "protocol/wire.h"
#include "memory/account.h"

struct nvs_device;
struct nvs_room_given;

/*
 * How plain device memory (cuMemAlloc, cuMemAllocPitch) is served on a device. The account is kept
 * around it. The functions run in the program's thread; alloc with a context of the device current.
 * The driver's cuMemFree frees it, but where it swaps: there it keeps its own account, and
 * cuMemFree asks that (swap/allocations.h).
 */
struct nvs_memory_backend {
	enum nvs_wire_backend wire;
	CUresult (*alloc)(struct nvs_device *device, uint64_t bytes, CUdeviceptr *pointer);
	/*
	 * What the program is told is free: at most what lies between `footprint` and the device's
	 * total.
	 */
	uint64_t (*free_bytes)(struct nvs_device *device, uint64_t footprint, uint64_t driver_free);
	bool pitches; /* it is the driver's own memory, and so are its rows */
	/*
	 * the driver would say of its pointers that they are something else than plain device
	 * memory
	 */
	bool disguised;
	bool swaps; /* its memory is brought out and in: the room (room.h) says how much may be */
};

/* The backend of a device: NVSHARE_MEMORY, or the next one that the device can do. */
const struct nvs_memory_backend *nvs_memory_of(const struct nvs_device *device);
/* cuMemAllocPitch: rows as the driver aligns them. */
CUresult nvs_memory_alloc_pitch(struct nvs_device *device, CUdeviceptr *pointer, size_t *pitch,
				size_t width, size_t height, unsigned int element);

/*
 * The account. Every allocating call reserves first, and then charges what it got or releases the
 * reservation.
 */

/* False: it would bring the process over what it may allocate on the device. */
bool nvs_memory_reserve(struct nvs_device *device, uint64_t bytes);
/*
 * The driver has refused what was reserved, which is `given`: room that the scheduler has promised
 * may be on its way. True: it was waited for, and the driver is to be asked again; false: what is
 * not in `given` any more is not reserved any more.
 */
bool nvs_memory_may_come(struct nvs_device *device, CUresult result, struct nvs_room_given *given);
/* Nothing was allocated: the reservation is taken back. */
void nvs_memory_release(struct nvs_device *device, uint64_t reserved);
/* Enters an allocation that succeeded in the book and charges it, in place of its reservation. */
void nvs_memory_charge(const struct nvs_entry *entry, uint64_t reserved);
/* Gives back what an entry that left the book was charged with. */
void nvs_memory_discharge(const struct nvs_entry *entry);
/*
 * The answer to a call that frees, before which the entry was taken out of the book: so of two
 * frees one finds it. It comes back if the driver refuses; `known`: there was one.
 */
CUresult nvs_memory_freed(CUresult result, bool known, const struct nvs_entry *entry);
/* The context was destroyed or reset by a call that succeeded: what was allocated in it is gone. */
void nvs_memory_context_gone(CUcontext context);

/*
 * Graphs with memory nodes may exist in this process: nvs_memory_graphs_ran must follow their
 * launches.
 */
extern _Atomic bool nvs_memory_graphs_allocate;
/* Measures anew what graphs have allocated on the device. */
void nvs_memory_graphs_ran(struct nvs_device *device);

/* What the client tells the scheduler. */
bool nvs_memory_swaps(const struct nvs_device *device);
enum nvs_wire_backend nvs_memory_wire_backend(const struct nvs_device *device);
/* In a forked child: nothing of the parent's memory is the child's. */
void nvs_memory_forked(void);
