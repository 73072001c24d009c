/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and ending runs. No state, no lock: a run is in one thread's hand.
 */
#include "memory/swap/runs.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "memory/swap/chunks.h"

CUresult nvs_run_begin(struct nvs_device *device, uint64_t bytes, uint64_t each,
		       struct nvs_run **run)
{
	struct nvs_run *made;

	if (!nvs_room_possible(device, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	bytes = (bytes + NVS_GRANULE_BYTES - 1) / NVS_GRANULE_BYTES * NVS_GRANULE_BYTES;
	made = calloc(1, sizeof(*made) + (bytes / each + 1) * sizeof(made->chunks[0]));
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->device = device;
	made->each = each;
	made->given = (struct nvs_room_given){ .kind = NVS_ROOM_MOVABLE,
					       .room = nvs_room_ask(device, bytes),
					       .bytes = bytes };
	if (made->given.room == NVS_ROOM_REFUSED) {
		free(made);
		return nvs_lost_refusal(device);
	}
	*run = made;
	return CUDA_SUCCESS;
}

/* The driver's answer to the properties, where no device memory is to be taken. */
static CUresult try_properties(const CUmemAllocationProp_v1 *prop)
{
	CUmemGenericAllocationHandle probe;
	CUresult result;

	if (prop->type == CU_MEM_ALLOCATION_TYPE_MANAGED ||
	    (prop->handle_types == CU_MEM_HANDLE_TYPE_NONE && !prop->flags.compression &&
	     !prop->flags.rdma_capable && !prop->flags.usage))
		return CUDA_SUCCESS; /* those of all memory */
	result = NVS_CALL(cuMemCreate, &probe, NVS_GRANULE_BYTES, prop, 0);
	if (result == CUDA_SUCCESS)
		NVS_CALL(cuMemRelease, probe);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

/*
 * The driver may refuse what the scheduler allowed: somebody else took it meanwhile. While the gate
 * is closed nothing needs the memory yet; otherwise the scheduler makes room again.
 */
static CUresult make_chunk(struct nvs_run *run, const CUmemAllocationProp_v1 *prop, uint64_t bytes,
			   struct nvs_chunk **chunk)
{
	struct nvs_room_given *given = &run->given;

	for (;;) {
		bool resident = given->room == NVS_ROOM_IN;
		CUresult result = nvs_chunk_create(run->device, bytes, prop, resident, chunk);

		if (result != CUDA_ERROR_OUT_OF_MEMORY || !resident)
			return result;
		if (atomic_load(&run->device->gate.state) == NVS_GATE_CLOSED &&
		    nvs_room_forgo(run->device, given->bytes))
			given->room = NVS_ROOM_OUT;
		else if (!nvs_room_lacking(run->device, given, bytes))
			return result;
	}
}

CUresult nvs_run_fill(struct nvs_run *run, const CUmemAllocationProp_v1 *prop, CUdeviceptr start,
		      CUresult (*place)(struct nvs_chunk *chunk, CUdeviceptr address))
{
	bool resident = run->given.room == NVS_ROOM_IN;
	CUresult result = prop && !resident ? try_properties(prop) : CUDA_SUCCESS;

	while (result == CUDA_SUCCESS && run->given.bytes) {
		uint64_t bytes = run->given.bytes < run->each ? run->given.bytes : run->each;
		struct nvs_chunk *chunk;

		result = make_chunk(run, prop, bytes, &chunk);
		if (result != CUDA_SUCCESS)
			return result;
		run->chunks[run->count++] = chunk;
		run->given.bytes -= bytes;
		if (place)
			result = place(chunk, start);
		nvs_chunk_leave(chunk);
		start += bytes;
	}
	return result;
}

void nvs_run_end(struct nvs_run *run)
{
	const struct nvs_room_given *given = &run->given;

	while (run->count) {
		struct nvs_chunk *chunk = run->chunks[--run->count];

		nvs_chunk_enter(chunk);
		nvs_chunk_end(chunk);
	}
	if (given->bytes)
		nvs_room_give(run->device, given->bytes,
			      given->room == NVS_ROOM_IN ? given->bytes : 0);
	free(run);
}

bool nvs_run_pin(struct nvs_run *run, uint64_t offset, uint64_t bytes)
{
	uint64_t at = 0;
	bool pinned = true;

	for (size_t i = 0; pinned && i < run->count; at += run->chunks[i++]->bytes) {
		struct nvs_chunk *chunk = run->chunks[i];

		if (offset >= at + chunk->bytes || offset + bytes <= at)
			continue;
		nvs_chunk_enter(chunk);
		pinned = nvs_chunk_pin(chunk);
		nvs_chunk_leave(chunk);
	}
	return pinned;
}
