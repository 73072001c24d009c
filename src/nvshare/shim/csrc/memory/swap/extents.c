/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and ending extents. No state, no lock: an extent is in one thread's hand.
 */
#include "memory/swap/extents.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "memory/footprint.h"
#include "memory/room.h"
#include "memory/swap/chunks.h"

/*
 * The driver may refuse what the scheduler allowed: somebody else took it meanwhile. While the gate
 * is closed nothing needs the memory yet; otherwise the scheduler makes room again.
 */
static CUresult make_chunk(struct nvs_device *device, uint64_t bytes, struct nvs_room_given *given,
			   struct nvs_chunk **chunk)
{
	for (;;) {
		bool resident = given->room == NVS_ROOM_IN;
		CUresult result = nvs_chunk_create(device, bytes, NULL, resident, chunk);

		if (result != CUDA_ERROR_OUT_OF_MEMORY || !resident)
			return result;
		if (atomic_load(&device->gate.state) == NVS_GATE_CLOSED &&
		    nvs_room_forgo(device, given->bytes))
			given->room = NVS_ROOM_OUT;
		else if (!nvs_room_lacking(device, given, bytes))
			return result;
	}
}

/* All chunks, for which room was given; on failure those that were made are in the extent. */
static CUresult fill(struct nvs_extent *extent, struct nvs_room_given *given)
{
	while (given->bytes) {
		CUdeviceptr address = extent->start + extent->bytes - given->bytes;
		uint64_t bytes = given->bytes < NVS_CHUNK_BYTES ? given->bytes : NVS_CHUNK_BYTES;
		struct nvs_chunk *chunk;
		CUresult result = make_chunk(extent->device, bytes, given, &chunk);

		if (result != CUDA_SUCCESS)
			return result;
		extent->chunks[extent->chunks_count++] = chunk;
		result = nvs_chunk_map(chunk, address, true);
		nvs_chunk_leave(chunk);
		given->bytes -= bytes;
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

static CUresult fill_with_room(struct nvs_extent *extent)
{
	struct nvs_device *device = extent->device;
	struct nvs_room_given given = { .kind = NVS_ROOM_MOVABLE,
					.room = nvs_room_ask(device, extent->bytes),
					.bytes = extent->bytes };
	CUresult result;

	if (given.room == NVS_ROOM_REFUSED)
		return nvs_lost_refusal(device);
	result = fill(extent, &given);
	if (given.bytes)
		nvs_room_give(device, given.bytes, given.room == NVS_ROOM_IN ? given.bytes : 0);
	return result;
}

CUresult nvs_extent_make(struct nvs_device *device, uint64_t bytes, struct nvs_extent **made)
{
	struct nvs_extent *extent;
	uint64_t whole, chunks;
	CUresult result;

	if (!nvs_footprint_possible(device, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	whole = (bytes + NVS_GRANULE_BYTES - 1) / NVS_GRANULE_BYTES * NVS_GRANULE_BYTES;
	chunks = (whole + NVS_CHUNK_BYTES - 1) / NVS_CHUNK_BYTES;
	extent = calloc(1, sizeof(*extent) + chunks * sizeof(extent->chunks[0]));
	if (!extent)
		return CUDA_ERROR_OUT_OF_MEMORY;
	extent->device = device;
	extent->bytes = whole;
	result = NVS_CALL(cuMemAddressReserve, &extent->start, whole, 0, 0, 0);
	if (result != CUDA_SUCCESS) {
		free(extent);
		return result;
	}
	result = fill_with_room(extent);
	if (result == CUDA_SUCCESS)
		*made = extent;
	else
		nvs_extent_end(extent);
	return result;
}

void nvs_extent_end(struct nvs_extent *extent)
{
	while (extent->chunks_count) {
		struct nvs_chunk *chunk = extent->chunks[--extent->chunks_count];

		nvs_chunk_enter(chunk);
		nvs_chunk_end(chunk);
	}
	NVS_CALL(cuMemAddressFree, extent->start, extent->bytes);
	free(extent);
}

bool nvs_extent_pin(struct nvs_extent *extent, CUdeviceptr start, uint64_t bytes)
{
	CUdeviceptr at = extent->start;
	bool pinned = true;

	for (unsigned int i = 0; i < extent->chunks_count; at += extent->chunks[i++]->bytes) {
		struct nvs_chunk *chunk = extent->chunks[i];

		if (start >= at + chunk->bytes || start + bytes <= at)
			continue;
		nvs_chunk_enter(chunk);
		pinned &= nvs_chunk_pin(chunk);
		nvs_chunk_leave(chunk);
	}
	return pinned;
}
