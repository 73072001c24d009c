/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the events. An event is the fence of its last record. Protected by sim.lock. */
#include <stdlib.h>

#include "capture/capture.h"
#include "memory/range.h"
#include "stream/stream.h"

CUresult sim_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent || Flags & ~7u ||
	    (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*phEvent = calloc(1, sizeof(**phEvent));
	(*phEvent)->context = context;
	(*phEvent)->id = ++sim.last_id;
	(*phEvent)->flags = Flags;
	sim_register_locked(*phEvent, SIM_EVENT);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent hEvent)
{
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (sim_is_locked(hEvent, SIM_EVENT)) {
		result = atomic_load(&hEvent->context->error);
		sim_forget_locked(hEvent);
		sim_fence_unref(hEvent->fence);
		free(hEvent->nodes);
		free(hEvent);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	sim_unlock();
	return result;
}

static void record_locked(struct CUstream_st *stream, struct CUevent_st *event)
{
	struct sim_op record = { .kind = SIM_OP_EMPTY };
	struct sim_fence *fence = sim_fence_ref(sim_queue_locked(stream, &record));

	sim_fence_unref(event->fence);
	event->fence = fence;
	event->capture_id = 0;
}

CUresult sim_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct CUstream_st *stream;
	CUresult result;

	if (flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS &&
	    (!sim_is_locked(hEvent, SIM_EVENT) || hEvent->context != stream->context))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_submit_locked(stream);
	if (result == CUDA_SUCCESS && stream->capture)
		result = sim_capture_event_record_locked(stream, hEvent, flags);
	else if (result == CUDA_SUCCESS)
		record_locked(stream, hEvent);
	sim_unlock();
	return result;
}

CUresult sim_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return sim_cuEventRecordWithFlags(hEvent, hStream, 0);
}

/*
 * In a stream of their own, which nobody else waits for: such an event waits for all streams as
 * they are now, and delays none. Those of before wait for less, so their order does no harm.
 */
static void record_context_locked(struct CUctx_st *context, struct CUevent_st *event)
{
	struct sim_op record = { .kind = SIM_OP_EMPTY };
	struct sim_fence *fence;
	size_t count = 0;

	if (!context->recorder)
		context->recorder = sim_stream_new_locked(context, CU_STREAM_NON_BLOCKING, 0);
	for (struct CUstream_st *stream = context->streams; stream; stream = stream->next)
		count++;
	record.waits = calloc(count, sizeof(struct sim_fence *));
	for (struct CUstream_st *stream = context->streams; stream; stream = stream->next)
		record.waits[record.wait_count++] = stream->last;
	fence = sim_fence_ref(sim_queue_locked(context->recorder, &record));
	free(record.waits);
	sim_fence_unref(event->fence);
	event->fence = fence;
	event->capture_id = 0;
}

CUresult sim_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (!sim_is_locked(hCtx, SIM_CONTEXT))
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (!sim_is_locked(hEvent, SIM_EVENT) || hEvent->context != hCtx)
		result = CUDA_ERROR_INVALID_HANDLE;
	else
		result = sim_capture_check_context_sync_locked(hCtx);
	if (result == CUDA_SUCCESS)
		result = atomic_load(&hCtx->error);
	if (result == CUDA_SUCCESS)
		record_context_locked(hCtx, hEvent);
	sim_unlock();
	return result;
}

/*
 * Whether an event may be asked about: it exists, its context is not broken, and no capture forbids
 * it.
 */
static CUresult check_locked(CUevent event)
{
	if (!sim_is_locked(event, SIM_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture_id)
		return sim_capture_check_event_locked(event);
	if (atomic_load(&event->context->error) != CUDA_SUCCESS)
		return atomic_load(&event->context->error);
	return sim_capture_check_unsafe_locked();
}

CUresult sim_cuEventQuery(CUevent hEvent)
{
	CUresult result;

	sim_look_at_progress();
	sim_lock();
	result = check_locked(hEvent);
	if (result == CUDA_SUCCESS && hEvent->fence && !hEvent->fence->done)
		result = CUDA_ERROR_NOT_READY;
	sim_unlock();
	return result;
}

CUresult sim_cuEventSynchronize(CUevent hEvent)
{
	struct CUctx_st *context;
	CUresult result;

	sim_look_at_progress();
	sim_lock();
	result = check_locked(hEvent);
	if (result == CUDA_SUCCESS) {
		context = hEvent->context;
		sim_wait_locked(hEvent->fence);
		result = atomic_load(&context->error);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	CUresult result = CUDA_SUCCESS;

	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(hStart, SIM_EVENT) || !sim_is_locked(hEnd, SIM_EVENT))
		result = CUDA_ERROR_INVALID_HANDLE;
	else if ((hStart->flags | hEnd->flags) & CU_EVENT_DISABLE_TIMING || !hStart->fence ||
		 !hEnd->fence)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (!hStart->fence->done || !hEnd->fence->done)
		result = CUDA_ERROR_NOT_READY;
	else
		*pMilliseconds =
			(float)((double)(int64_t)(hEnd->fence->time_ns - hStart->fence->time_ns) /
				1e6);
	sim_unlock();
	return result;
}

CUresult sim_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return sim_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
