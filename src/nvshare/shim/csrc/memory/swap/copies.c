/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of chunks. No state beside the record that is passed in, which is its mover's; no lock.
 * The driver's own functions are called, not the hooks: nothing here waits at the gate.
 */
#include "memory/swap/copies.h"

#include "driver/driver.h"
#include "gate/context_list.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "memory/swap/arena.h"
#include "memory/swap/chunk.h"

static bool make_streams(struct nvs_copies *copies)
{
	bool made =
		NVS_CALL(cuStreamCreate, &copies->out, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
		NVS_CALL(cuStreamCreate, &copies->in, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;

	for (int i = 0; made && i < NVS_COPIES; i++)
		made = NVS_CALL(cuEventCreate, &copies->events[i], CU_EVENT_DISABLE_TIMING) ==
		       CUDA_SUCCESS;
	return made;
}

/* What was made in a context that has ended is gone with it. */
static bool prepare(struct nvs_copies *copies, struct nvs_device *device, struct nvs_context *entry)
{
	uint32_t life = nvs_context_life(entry);

	if (copies->made_in == entry && copies->life == life)
		return true;
	if (copies->made_in)
		nvs_arena_register_again(device);
	copies->made_in = NULL;
	if (!make_streams(copies))
		return false;
	copies->made_in = entry;
	copies->life = life;
	return true;
}

static bool enter_context(struct nvs_copies *copies, struct nvs_device *device,
			  struct nvs_context *entry)
{
	CUcontext context, popped;

	if (!nvs_context_take(entry, &context))
		return false;
	if (NVS_CALL(cuCtxPushCurrent_v2, context) == CUDA_SUCCESS) {
		if (prepare(copies, device, entry))
			return true;
		NVS_CALL(cuCtxPopCurrent_v2, &popped);
	}
	nvs_context_give_back(entry);
	return false;
}

bool nvs_copies_begin(struct nvs_copies *copies, struct nvs_device *device)
{
	struct nvs_context *entry = NULL;

	while ((entry = nvs_context_next(device, entry, true)))
		if (enter_context(copies, device, entry)) {
			copies->pinned = entry;
			return true;
		}
	return false;
}

void nvs_copies_end(struct nvs_copies *copies)
{
	CUcontext popped;

	NVS_CALL(cuCtxPopCurrent_v2, &popped);
	nvs_context_give_back(copies->pinned);
	nvs_context_unpin(copies->pinned);
	copies->pinned = NULL;
}

static CUresult submit(struct nvs_chunk *chunk, bool out, CUstream stream)
{
	CUdeviceptr address = nvs_chunk_address(chunk);
	CUresult result = address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	uint64_t bytes;

	if (nvs_chunk_is_managed(chunk))
		return NVS_CALL(cuMemPrefetchAsync, address, chunk->bytes,
				out ? CU_DEVICE_CPU : chunk->device->ordinal, stream);
	for (uint64_t offset = 0; result == CUDA_SUCCESS && offset < chunk->bytes;
	     offset += bytes) {
		void *place = nvs_arena_place(chunk, offset, &bytes);

		result =
			out ? NVS_CALL(cuMemcpyDtoHAsync_v2, place, address + offset, bytes, stream)
			    : NVS_CALL(cuMemcpyHtoDAsync_v2, address + offset, place, bytes,
				       stream);
	}
	return result;
}

CUresult nvs_copies_submit(struct nvs_copies *copies, struct nvs_chunk *chunk, bool out,
			   unsigned int slot)
{
	CUstream stream = out ? copies->out : copies->in;
	CUresult result = submit(chunk, out, stream);

	if (result == CUDA_SUCCESS)
		result = NVS_CALL(cuEventRecord, copies->events[slot], stream);
	/* What was submitted before that must not go on when the chunk's memory is another's. */
	if (result != CUDA_SUCCESS)
		NVS_CALL(cuStreamSynchronize, stream);
	return result;
}

CUresult nvs_copies_query(const struct nvs_copies *copies, unsigned int slot)
{
	return NVS_CALL(cuEventQuery, copies->events[slot]);
}
