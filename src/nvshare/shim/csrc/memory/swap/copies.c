/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of chunks. No state beside the record that is passed in, which is its mover's; no lock.
 * The driver's own functions are called, not the hooks: nothing here waits at the gate.
 */
#include "memory/swap/copies.h"

#include <string.h>

#include "driver/driver.h"
#include "gate/context_list.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "memory/swap/arena.h"
#include "memory/swap/chunk.h"
#include "memory/swap/pieces.h"

static void end_streams(struct nvs_copies *copies)
{
	if (copies->out)
		NVS_CALL(cuStreamDestroy_v2, copies->out);
	if (copies->in)
		NVS_CALL(cuStreamDestroy_v2, copies->in);
	for (int i = 0; i < NVS_COPIES; i++)
		if (copies->events[i])
			NVS_CALL(cuEventDestroy_v2, copies->events[i]);
}

static bool make_streams(struct nvs_copies *copies)
{
	bool made;

	copies->out = copies->in = NULL;
	memset(copies->events, 0, sizeof(copies->events));
	made = NVS_CALL(cuStreamCreate, &copies->out, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
	       NVS_CALL(cuStreamCreate, &copies->in, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
	for (int i = 0; made && i < NVS_COPIES; i++)
		made = NVS_CALL(cuEventCreate, &copies->events[i], CU_EVENT_DISABLE_TIMING) ==
		       CUDA_SUCCESS;
	if (!made)
		end_streams(copies);
	return made;
}

static bool are_of(const struct nvs_copies *copies, const struct nvs_context *entry)
{
	return copies->made_in == entry && copies->life == nvs_context_life(entry);
}

/* What was made in a context that has ended is gone with it. */
static bool prepare(struct nvs_copies *copies, struct nvs_device *device, struct nvs_context *entry)
{
	if (are_of(copies, entry))
		return true;
	if (copies->made_in)
		nvs_pieces_register_again(device);
	nvs_contents_forget(&copies->contents);
	copies->made_in = NULL;
	if (!make_streams(copies))
		return false;
	copies->made_in = entry;
	copies->life = nvs_context_life(entry);
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

static bool begin(struct nvs_copies *copies, struct nvs_device *device, bool any)
{
	struct nvs_context *entry = NULL;

	while ((entry = nvs_context_next(device, entry, true)))
		if ((any || are_of(copies, entry)) && enter_context(copies, device, entry)) {
			copies->pinned = entry;
			return true;
		}
	return false;
}

/* In the context that has the streams, if it is still there. */
bool nvs_copies_begin(struct nvs_copies *copies, struct nvs_device *device)
{
	return begin(copies, device, false) || begin(copies, device, true);
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
	nvs_pieces_register_of(chunk);
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

/* What was submitted must not go on when the chunk's memory is another's. */
static CUresult stopped(CUresult result, CUstream stream)
{
	NVS_CALL(cuStreamSynchronize, stream);
	return result;
}

CUresult nvs_copies_submit(struct nvs_copies *copies, struct nvs_chunk *chunk, bool out,
			   unsigned int slot)
{
	CUstream stream = out ? copies->out : copies->in;
	CUresult result = !out && chunk->zeros
				  ? nvs_contents_clear(&copies->contents, chunk, stream)
				  : submit(chunk, out, stream);

	if (result == CUDA_SUCCESS)
		result = NVS_CALL(cuEventRecord, copies->events[slot], stream);
	return result == CUDA_SUCCESS ? result : stopped(result, stream);
}

CUresult nvs_copies_hash(struct nvs_copies *copies, struct nvs_chunk *chunk, unsigned int slot)
{
	return nvs_contents_hash(&copies->contents, chunk, slot, copies->events[slot]);
}

CUresult nvs_copies_query(const struct nvs_copies *copies, bool out, unsigned int slot)
{
	CUresult result = NVS_CALL(cuEventQuery, copies->events[slot]);

	return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY
		       ? result
		       : stopped(result, out ? copies->out : copies->in);
}
