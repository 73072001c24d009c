/* SPDX-License-Identifier: Apache-2.0 */
/* No state; across.h says what it is for. */
#include "hooks/across.h"

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/swap/allocations.h"

static bool is_plain(const struct nvs_allocation *allocation)
{
	return allocation->context && allocation->kind == NVS_ALLOCATION_PLAIN;
}

/*
 * In a call to this device virtual memory that the program made for another one is an error, which
 * a driver that is told both contexts may not make. Only a real one could show that.
 */
static bool may_lie_in(const struct nvs_allocation *allocation, const struct nvs_device *device)
{
	return is_plain(allocation) || allocation->device == device;
}

/* Whether the bytes lie in the allocation: the mapping of a small one has more. */
static bool has(const struct nvs_allocation *allocation, CUdeviceptr pointer, size_t bytes)
{
	return bytes <= allocation->bytes - (pointer - allocation->start);
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
static CUresult copy_between(const struct nvs_allocation *to, CUdeviceptr target,
			     const struct nvs_allocation *from, CUdeviceptr source, size_t bytes,
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

/* What is known of one side of a copy. False: it is of ours, and not all of the bytes lie in it. */
static bool describe(CUdeviceptr pointer, size_t bytes, struct nvs_allocation *side, bool *ours)
{
	*side = (struct nvs_allocation){ .context = NULL };
	*ours = nvs_allocation_find(pointer, side);
	return !*ours || has(side, pointer, bytes);
}

/* Both sides may lie in the device's copies, and one of them is on another. */
static bool is_between(const struct nvs_allocation *to, const struct nvs_allocation *from,
		       const struct nvs_device *device)
{
	return may_lie_in(to, device) && may_lie_in(from, device) &&
	       (to->device != device || from->device != device);
}

/* Makes the context that the plain memory is of the current one. */
static bool enter(struct nvs_across *across, const struct nvs_allocation *plain,
		  CUcontext of_program, CUstream stream, bool async)
{
	CUcontext popped;

	if (NVS_CALL(cuCtxPushCurrent_v2, plain->context) != CUDA_SUCCESS)
		return false;
	*across = (struct nvs_across){ .context = plain->context };
	if (!async || follow(across, of_program, stream))
		return true;
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
	return false;
}

bool nvs_across_begin(struct nvs_across *across, CUdeviceptr to, CUdeviceptr from, size_t bytes,
		      CUstream stream, bool async, CUresult *result)
{
	struct nvs_allocation target, source;
	bool to_ours, from_ours;
	bool whole = describe(to, bytes, &target, &to_ours) &&
		     describe(from, bytes, &source, &from_ours);
	const struct nvs_allocation *plain = is_plain(&target) ? &target : &source;
	CUcontext here = context_of(stream);
	const struct nvs_device *device = nvs_device_of_context(here);

	if (!whole || !is_plain(plain) || is_captured(stream))
		return false;
	if (!to_ours || !from_ours)
		return plain->device != device && enter(across, plain, here, stream, async);
	if (is_between(&target, &source, device))
		*result = copy_between(&target, to, &source, from, bytes, stream, async);
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
