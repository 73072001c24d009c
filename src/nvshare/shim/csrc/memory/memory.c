/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the backends and each device's choice of one, and keeps book (account.c) and room in step.
 * No lock: threads that choose at the same time choose the same.
 *
 * `native`: memory stays what the driver makes it and is only counted. `managed`: plain device
 * memory becomes unified memory, which the driver moves between device and host by page faults, so
 * that several processes together may have more than the device; one process alone may not, unless
 * it was told so: it would thrash even with the lock. `swap`: plain memory is made of chunks that
 * move to host memory and back (swap/allocations.h); how much there may be is the room's business.
 */
#include "memory/memory.h"

#include <stdatomic.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "memory/pools.h"
#include "memory/room.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunks.h"
#include "memory/swap/handles.h"
#include "memory/swap/peers.h"
#include "memory/swap/unified.h"
#include "memory/swap/virtual.h"
#include "process/config.h"
#include "process/log.h"
#include "process/sleepless.h"
#include "process/report.h"

#define PITCH_BYTES 512u

static CUresult native_alloc(struct nvs_device *device, uint64_t bytes, CUdeviceptr *pointer)
{
	(void)device;
	return NVS_CALL(cuMemAlloc_v2, pointer, bytes);
}

static uint64_t native_free_bytes(struct nvs_device *device, uint64_t footprint,
				  uint64_t driver_free)
{
	uint64_t left = device->total_bytes > footprint ? device->total_bytes - footprint : 0;

	return driver_free < left ? driver_free : left;
}

static const struct nvs_memory_backend native = {
	.wire = NVS_BACKEND_NATIVE,
	.alloc = native_alloc,
	.free_bytes = native_free_bytes,
	.pitches = true,
};

static CUresult managed_alloc(struct nvs_device *device, uint64_t bytes, CUdeviceptr *pointer)
{
	(void)device;
	nvs_sleepless("it has managed memory");
	return NVS_CALL(cuMemAllocManaged, pointer, bytes, CU_MEM_ATTACH_GLOBAL);
}

static uint64_t managed_free_bytes(struct nvs_device *device, uint64_t footprint,
				   uint64_t driver_free)
{
	uint64_t capacity = nvs_config()->single_oversub ? device->total_bytes
							 : nvs_device_usable_bytes(device);

	(void)driver_free; /* what others use is moved out when it is needed */
	return capacity > footprint ? capacity - footprint : 0;
}

static const struct nvs_memory_backend managed = {
	.wire = NVS_BACKEND_MANAGED,
	.alloc = managed_alloc,
	.free_bytes = managed_free_bytes,
	.disguised = true,
};

/* `fixed`: what the account has, which is all but what moves. */
static uint64_t swap_free_bytes(struct nvs_device *device, uint64_t fixed, uint64_t driver_free)
{
	uint64_t capacity = nvs_room_capacity(device), used = nvs_room_footprint(device);
	uint64_t most = device->total_bytes;

	if (capacity == UINT64_MAX) {
		used += fixed;
		most = most > used ? most - used : 0;
		return driver_free < most ? driver_free : most;
	}
	if (capacity > most)
		capacity = most;
	return capacity > used ? capacity - used : 0;
}

static const struct nvs_memory_backend swap = {
	.wire = NVS_BACKEND_NATIVE, /* for schedulers that know nothing of memory that swaps */
	.alloc = nvs_allocation_make,
	.free_bytes = swap_free_bytes,
	.swaps = true,
};

/* The most that the process may allocate; the driver, or the room, knows better for the others. */
static uint64_t allocatable(const struct nvs_device *device)
{
	return nvs_memory_of(device) == &managed && !nvs_config()->single_oversub
		       ? nvs_device_usable_bytes(device)
		       : UINT64_MAX;
}

CUresult nvs_memory_alloc_pitch(struct nvs_device *device, CUdeviceptr *pointer, size_t *pitch,
				size_t width, size_t height, unsigned int element)
{
	const struct nvs_memory_backend *backend = nvs_memory_of(device);
	size_t row, bytes;
	CUresult result;

	if (backend->pitches)
		return NVS_CALL(cuMemAllocPitch_v2, pointer, pitch, width, height, element);
	if (element != 4 && element != 8 && element != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_add_overflow(width, PITCH_BYTES - 1, &row))
		return CUDA_ERROR_OUT_OF_MEMORY;
	row -= row % PITCH_BYTES;
	if (__builtin_mul_overflow(row, height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = backend->alloc(device, bytes, pointer);
	if (result == CUDA_SUCCESS)
		*pitch = row;
	return result;
}

static const struct nvs_memory_backend *_Atomic backends[NVS_MAX_DEVICES]; /* NULL: not chosen */

_Atomic bool nvs_memory_graphs_allocate;

static bool can(const struct nvs_device *device, CUdevice_attribute attribute)
{
	int supported = 0;

	return NVS_CALL(cuDeviceGetAttribute, &supported, attribute, device->ordinal) ==
		       CUDA_SUCCESS &&
	       supported;
}

/* Virtual memory management, in steps of the size that chunks are made of. */
static bool can_swap(const struct nvs_device *device)
{
	CUmemAllocationProp_v1 prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal },
	};
	size_t bytes;

	return can(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
	       NVS_CALL(cuMemGetAllocationGranularity, &bytes, &prop,
			CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
	       NVS_GRANULE_BYTES % bytes == 0;
}

static const struct nvs_memory_backend *choose_backend(const struct nvs_device *device)
{
	int wanted = nvs_config()->memory;

	if (wanted == NVS_MEMORY_SWAP && can_swap(device))
		return &swap;
	if (wanted == NVS_MEMORY_SWAP)
		nvs_log("device %d has no virtual memory management; its memory is not swapped",
			device->ordinal);
	if (wanted == NVS_MEMORY_NATIVE)
		return &native;
	if (can(device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
		return &managed;
	nvs_log("device %d has no managed memory; its memory is only counted "
		"(NVSHARE_MEMORY=native)",
		device->ordinal);
	return &native;
}

const struct nvs_memory_backend *nvs_memory_of(const struct nvs_device *device)
{
	const struct nvs_memory_backend *_Atomic *slot = &backends[device->ordinal];
	const struct nvs_memory_backend *backend = atomic_load(slot), *chosen;

	if (backend)
		return backend;
	chosen = choose_backend(device);
	return atomic_compare_exchange_strong(slot, &backend, chosen) ? chosen : backend;
}

enum nvs_wire_backend nvs_memory_wire_backend(const struct nvs_device *device)
{
	return nvs_memory_of(device)->wire;
}

bool nvs_memory_swaps(const struct nvs_device *device)
{
	return nvs_memory_of(device)->swaps;
}

bool nvs_memory_reserve(struct nvs_device *device, uint64_t bytes)
{
	return nvs_lost(device) == CUDA_SUCCESS &&
	       (!nvs_memory_swaps(device) || nvs_room_possible(device, bytes)) &&
	       nvs_room_ask_fixed(device, bytes, allocatable(device));
}

bool nvs_memory_may_come(struct nvs_device *device, CUresult result, struct nvs_room_given *given)
{
	return result == CUDA_ERROR_OUT_OF_MEMORY && nvs_memory_of(device)->swaps &&
	       nvs_room_lacking(device, given, given->bytes);
}

void nvs_memory_release(struct nvs_device *device, uint64_t reserved)
{
	nvs_room_commit(device, reserved, 0);
}

/* Why what the account has of one kind can't be moved. */
static enum nvs_report_bytes reason_of(const struct nvs_entry *entry)
{
	switch (entry->kind) {
	case NVS_ENTRY_ARRAY:
	case NVS_ENTRY_MIPMAP:
		return NVS_BYTES_ARRAYS;
	case NVS_ENTRY_BLOCK:
		return NVS_BYTES_HANDLES;
	default:
		return NVS_BYTES_OTHER;
	}
}

void nvs_memory_charge(const struct nvs_entry *entry, uint64_t reserved)
{
	/* Without host memory for its entry it stays charged for good, rather than never. */
	nvs_account_add(entry);
	nvs_report_bytes(entry->device, reason_of(entry), (int64_t)entry->bytes);
	nvs_room_commit(nvs_device_known(entry->device), reserved, (int64_t)entry->bytes);
}

void nvs_memory_discharge(const struct nvs_entry *entry)
{
	if (entry->pool) {
		nvs_pool_discharge(entry);
		return;
	}
	nvs_report_bytes(entry->device, reason_of(entry), -(int64_t)entry->bytes);
	nvs_room_commit(nvs_device_known(entry->device), 0, -(int64_t)entry->bytes);
}

CUresult nvs_memory_freed(CUresult result, bool known, const struct nvs_entry *entry)
{
	if (known && result == CUDA_SUCCESS)
		nvs_memory_discharge(entry);
	else if (known)
		nvs_account_add(entry);
	return result;
}

void nvs_memory_context_gone(CUcontext context)
{
	if (!context)
		return;
	nvs_account_sweep(context, nvs_memory_discharge);
	nvs_unified_context_gone(context);
}

void nvs_memory_graphs_ran(struct nvs_device *device)
{
	cuuint64_t bytes;

	if (NVS_CALL(cuDeviceGetGraphMemAttribute, device->ordinal,
		     CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS)
		nvs_room_set_graphs(device, bytes);
}

void nvs_memory_forked(void)
{
	atomic_store(&nvs_memory_graphs_allocate, false);
	nvs_account_forget();
	nvs_pools_forked();
	nvs_allocations_forked();
	nvs_chunks_forked();
	nvs_handles_forked();
	nvs_virtual_forked();
	nvs_peers_forked();
	nvs_unified_forked();
}
