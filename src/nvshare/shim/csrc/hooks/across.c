/* SPDX-License-Identifier: Apache-2.0 */
/* No state; across.h says what it is for. */
#include "hooks/across.h"

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/swap/blocks.h"

static bool is_plain(const struct nvs_block *block)
{
	return block->context && block->kind == NVS_BLOCK_PLAIN;
}

/*
 * In a call to this device virtual memory that the program made for another one is an error, which
 * a driver that is told both contexts may not make. Only a real one could show that.
 */
static bool may_lie_in(const struct nvs_block *block, const struct nvs_device *device)
{
	return is_plain(block) || block->device == device;
}

/* Whether the bytes lie in the block: the mapping of a small one has more. */
static bool has(const struct nvs_block *block, CUdeviceptr pointer, size_t bytes)
{
	return bytes <= block->bytes - (pointer - block->start);
}

static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return NVS_CALL(cuStreamIsCapturing, stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The context that the stream's work runs in; NULL: none. */
static CUcontext context_of(CUstream stream)
{
	CUcontext context = NULL;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		NVS_CALL(cuCtxGetCurrent, &context);
	else
		NVS_CALL(cuStreamGetCtx, stream, &context);
	return context;
}

/* What comes in `later` waits for all that is in `earlier` now, which belongs to the context. */
static CUresult order(CUcontext context, CUstream earlier, CUstream later)
{
	CUresult result = NVS_CALL(cuCtxPushCurrent_v2, context);
	CUcontext popped;
	CUevent event;

	if (result != CUDA_SUCCESS)
		return result;
	result = NVS_CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS) {
		result = NVS_CALL(cuEventRecord, event, earlier);
		if (result == CUDA_SUCCESS)
			result = NVS_CALL(cuStreamWaitEvent, later, event, 0);
		NVS_CALL(cuEventDestroy_v2, event);
	}
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
	return result;
}

/* A copy inside the GPUs: the driver makes it where it is told both contexts. */
static CUresult copy_between(const struct nvs_block *to, CUdeviceptr target,
			     const struct nvs_block *from, CUdeviceptr source, size_t bytes,
			     CUstream stream, bool async)
{
	/* The program's own virtual memory has no context: it may be of the stream's device only.
	 */
	CUcontext here = context_of(stream);
	CUcontext there = to->context ? to->context : here;
	CUcontext origin = from->context ? from->context : here;

	if (async)
		return NVS_CALL(cuMemcpyPeerAsync, target, there, source, origin, bytes, stream);
	if (stream == CU_STREAM_PER_THREAD)
		return NVS_CALL(cuMemcpyPeer_ptds, target, there, source, origin, bytes);
	return NVS_CALL(cuMemcpyPeer, target, there, source, origin, bytes);
}

/* A stream of the context that is current, in which work comes after what is in the program's. */
static bool follow(struct nvs_across *across, CUcontext of_program, CUstream stream)
{
	if (NVS_CALL(cuStreamCreate, &across->own, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return false;
	across->follows = stream;
	if (order(of_program, stream, across->own) == CUDA_SUCCESS)
		return true;
	NVS_CALL(cuStreamDestroy_v2, across->own);
	return false;
}

bool nvs_across_begin(struct nvs_across *across, CUdeviceptr to, CUdeviceptr from, size_t bytes,
		      CUstream stream, bool async, CUresult *result)
{
	struct nvs_block target = { .context = NULL }, source = { .context = NULL };
	bool to_ours = nvs_block_find(to, &target), from_ours = nvs_block_find(from, &source);
	const struct nvs_block *plain = is_plain(&target) ? &target : &source;
	CUcontext here = context_of(stream), popped;
	const struct nvs_device *device = nvs_device_of_context(here);

	if (!is_plain(plain) || is_captured(stream) || (to_ours && !has(&target, to, bytes)) ||
	    (from_ours && !has(&source, from, bytes)))
		return false;
	if (to_ours && from_ours) {
		if (may_lie_in(&target, device) && may_lie_in(&source, device) &&
		    !(target.device == device && source.device == device))
			*result = copy_between(&target, to, &source, from, bytes, stream, async);
		return false;
	}
	if (plain->device == device ||
	    NVS_CALL(cuCtxPushCurrent_v2, plain->context) != CUDA_SUCCESS)
		return false;
	*across = (struct nvs_across){ .context = plain->context };
	if (!async || follow(across, here, stream))
		return true;
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
	return false;
}

void nvs_across_end(struct nvs_across *across, CUresult *result)
{
	CUcontext popped;
	CUresult ordered;

	if (across->own) {
		ordered = order(across->context, across->own, across->follows);
		if (*result == CUDA_SUCCESS)
			*result = ordered;
		NVS_CALL(cuStreamDestroy_v2, across->own);
	}
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
}
