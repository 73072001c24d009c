/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the stream objects: their making and end, and the handles by which programs call them.
 * Protected by sim.lock.
 */
#include "stream/stream.h"

#include <stdlib.h>

#include "capture/capture.h"
#include "memory/range.h"

struct CUstream_st *sim_stream_new_locked(struct CUctx_st *context, unsigned int flags,
					  int priority)
{
	struct CUstream_st *stream = calloc(1, sizeof(*stream));

	stream->context = context;
	stream->flags = flags;
	stream->priority = priority;
	stream->id = ++sim.last_id;
	stream->tail = &stream->head;
	pthread_cond_init(&stream->work, NULL);
	stream->next = context->streams;
	context->streams = stream;
	return stream;
}

void sim_stream_close_locked(struct CUstream_st *stream)
{
	struct CUstream_st **link = &stream->context->streams;

	sim_capture_leave_locked(stream);
	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	stream->closing = true;
	if (sim_is_locked(stream, SIM_STREAM))
		sim_forget_locked(stream);
	if (stream->has_thread)
		pthread_cond_signal(&stream->work);
	else
		sim_stream_free_locked(stream);
}

/* The default stream of the calling thread, made at its first use. */
static struct CUstream_st *thread_stream_locked(struct CUctx_st *context)
{
	uint64_t thread = sim_thread_id();
	struct CUstream_st *stream = context->streams;

	while (stream && stream->thread != thread)
		stream = stream->next;
	if (!stream) {
		stream = sim_stream_new_locked(context, CU_STREAM_DEFAULT, 0);
		stream->thread = thread;
	}
	return stream;
}

CUresult sim_stream_locked(CUstream handle, struct CUstream_st **stream)
{
	struct CUctx_st *context = sim_current_locked();

	if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
		if (!sim_is_locked(handle, SIM_STREAM))
			return CUDA_ERROR_INVALID_HANDLE;
		*stream = handle;
		return atomic_load(&handle->context->error);
	}
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*stream = handle == CU_STREAM_PER_THREAD ? thread_stream_locked(context) : context->legacy;
	return atomic_load(&context->error);
}

CUresult sim_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phStream || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	if (priority > 0)
		priority = 0;
	if (priority < SIM_GREATEST_PRIORITY)
		priority = SIM_GREATEST_PRIORITY;
	sim_lock();
	*phStream = sim_stream_new_locked(context, flags, priority);
	sim_register_locked(*phStream, SIM_STREAM);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return sim_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;

	if (!hStream || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_lock();
	if (!sim_is_locked(hStream, SIM_STREAM)) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else {
		result = atomic_load(&hStream->context->error);
		sim_stream_close_locked(hStream);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuStreamQuery(CUstream hStream)
{
	struct CUstream_st *stream;
	CUresult result;

	sim_look_at_progress();
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_sync_locked(stream);
	if (result == CUDA_SUCCESS && !sim_stream_idle_locked(stream))
		result = CUDA_ERROR_NOT_READY;
	sim_unlock();
	return result;
}

CUresult sim_cuStreamSynchronize(CUstream hStream)
{
	struct CUstream_st *stream;
	struct CUctx_st *context;
	CUresult result;

	sim_look_at_progress();
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_sync_locked(stream);
	if (result == CUDA_SUCCESS) {
		context = stream->context;
		sim_stream_wait_locked(stream);
		result = atomic_load(&context->error);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct CUstream_st *stream;
	CUresult result;

	if (Flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS && !sim_is_locked(hEvent, SIM_EVENT))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_submit_locked(stream);
	if (result == CUDA_SUCCESS && (stream->capture || hEvent->capture_id))
		result = sim_capture_event_wait_locked(stream, hEvent, Flags);
	else if (result == CUDA_SUCCESS)
		sim_queue_wait_locked(stream, hEvent->fence);
	sim_unlock();
	return result;
}
