/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting: to a stream's queue or, while it is capturing, to its graph. Owns nothing. */
#include "capture/capture.h"
#include "stream/stream.h"

CUresult sim_submit(CUstream handle, const struct sim_op *op, struct sim_fence **fence)
{
	struct CUstream_st *stream;
	struct sim_fence *queued;
	CUresult result;

	if (fence)
		*fence = NULL;
	sim_lock();
	result = sim_stream_locked(handle, &stream);
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_submit_locked(stream);
	if (result == CUDA_SUCCESS && stream->capture) {
		result = sim_capture_op_locked(stream, op);
	} else if (result == CUDA_SUCCESS) {
		queued = sim_queue_locked(stream, op);
		if (fence)
			*fence = sim_fence_ref(queued);
	}
	sim_unlock();
	return result;
}

CUresult sim_submit_and_wait(CUstream stream, const struct sim_op *op)
{
	struct sim_fence *fence;
	CUresult result = sim_submit(stream, op, &fence);

	if (result != CUDA_SUCCESS || !fence)
		return result;
	sim_lock();
	sim_wait_locked(fence);
	sim_fence_unref(fence);
	sim_unlock();
	return atomic_load(&op->context->error);
}
