/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the queues of the streams and the threads that execute them: one thread a stream, started
 * with its first operation. Queues and fences are protected by sim.lock; an operation that has
 * reached the head of its queue belongs to the thread alone until it is done.
 *
 * The legacy default stream and the context's other (blocking) streams wait for each other: an
 * operation in it waits for the last one in each of them, and theirs wait for the last one in it.
 */
#include <stdlib.h>
#include <string.h>

#include "stream/stream.h"

static void add_wait(struct sim_op *op, struct sim_fence *fence)
{
	if (!fence || fence->done)
		return;
	op->waits = realloc(op->waits, (op->wait_count + 1) * sizeof(struct sim_fence *));
	op->waits[op->wait_count++] = sim_fence_ref(fence);
}

static void add_legacy_waits_locked(const struct CUstream_st *stream, struct sim_op *op)
{
	struct CUctx_st *context = stream->context;

	if (stream->flags & CU_STREAM_NON_BLOCKING)
		return;
	if (stream != context->legacy) {
		add_wait(op, context->legacy->last);
		return;
	}
	for (const struct CUstream_st *other = context->streams; other; other = other->next) {
		if (other != stream && !(other->flags & CU_STREAM_NON_BLOCKING))
			add_wait(op, other->last);
	}
}

/* Waits for what the operation depends on, and executes it unless its context is broken. */
static void carry_out(struct sim_op *op)
{
	int error;

	sim_lock();
	for (size_t i = 0; i < op->wait_count; i++) {
		sim_wait_locked(op->waits[i]);
		sim_fence_unref(op->waits[i]);
	}
	sim_unlock();
	error = atomic_load(&op->context->error);
	if (error == CUDA_SUCCESS) {
		error = sim.executor->execute(op);
		if (error != CUDA_SUCCESS)
			sim_context_fail(op->context, error);
	} else {
		sim.executor->fail(op, error);
	}
}

void sim_stream_free_locked(struct CUstream_st *stream)
{
	sim_fence_unref(stream->last);
	pthread_cond_destroy(&stream->work);
	free(stream->capture_tail);
	free(stream);
}

static void free_op_locked(struct sim_op *op)
{
	sim.executor->free_locked(op);
	free(op->waits);
	free(op);
}

static void finish_locked(struct CUstream_st *stream, struct sim_op *op)
{
	stream->head = op->next;
	if (!stream->head)
		stream->tail = &stream->head;
	stream->depth--;
	sim.queued--;
	op->fence->done = true;
	op->fence->time_ns = sim_now_ns();
	sim_fence_unref(op->fence);
	free_op_locked(op);
	pthread_cond_broadcast(&sim.changed);
}

static void *run_stream(void *argument)
{
	struct CUstream_st *stream = argument;

	sim_lock();
	for (;;) {
		while (!stream->head && !stream->closing)
			pthread_cond_wait(&stream->work, &sim.lock);
		if (!stream->head)
			break;
		sim_unlock();
		carry_out(stream->head);
		sim_lock();
		finish_locked(stream, stream->head);
	}
	sim_stream_free_locked(stream);
	sim_unlock();
	return NULL;
}

struct sim_fence *sim_queue_locked(struct CUstream_st *stream, const struct sim_op *op)
{
	struct sim_op *queued;

	while (stream->depth >= SIM_QUEUE_DEPTH)
		pthread_cond_wait(&sim.changed, &sim.lock);
	if (!stream->has_thread)
		stream->has_thread = sim_start_thread(run_stream, stream);
	queued = malloc(sizeof(*queued));
	*queued = *op;
	queued->next = NULL;
	queued->context = stream->context;
	queued->waits = NULL;
	queued->wait_count = 0;
	queued->fence = sim_fence_new();
	add_legacy_waits_locked(stream, queued);
	for (size_t i = 0; i < op->wait_count; i++)
		add_wait(queued, op->waits[i]);
	*stream->tail = queued;
	stream->tail = &queued->next;
	stream->depth++;
	sim.queued++;
	sim_fence_unref(stream->last);
	stream->last = sim_fence_ref(queued->fence);
	pthread_cond_signal(&stream->work);
	return queued->fence;
}

void sim_queue_wait_locked(struct CUstream_st *stream, struct sim_fence *fence)
{
	struct sim_op wait = { .kind = SIM_OP_EMPTY, .waits = &fence, .wait_count = 1 };

	if (fence && !fence->done)
		sim_queue_locked(stream, &wait);
}

static bool is_drained(const struct CUstream_st *stream)
{
	return !stream->last || stream->last->done;
}

/*
 * The first busy stream among those that a wait for this one includes: for the legacy stream, all
 * blocking ones.
 */
static struct CUstream_st *first_busy_locked(struct CUstream_st *stream)
{
	if (!is_drained(stream))
		return stream;
	if (stream != stream->context->legacy)
		return NULL;
	for (struct CUstream_st *other = stream->context->streams; other; other = other->next) {
		if (!(other->flags & CU_STREAM_NON_BLOCKING) && !is_drained(other))
			return other;
	}
	return NULL;
}

bool sim_stream_idle_locked(struct CUstream_st *stream)
{
	return first_busy_locked(stream) == NULL;
}

void sim_stream_wait_locked(struct CUstream_st *stream)
{
	struct CUctx_st *context = stream->context;
	struct CUstream_st *busy;

	if (stream != context->legacy) {
		sim_wait_locked(stream->last);
		return;
	}
	while ((busy = first_busy_locked(stream)) != NULL)
		sim_wait_locked(busy->last);
}

void sim_context_idle_locked(struct CUctx_st *context)
{
	struct CUstream_st *stream = context->streams;

	while (stream) {
		if (is_drained(stream)) {
			stream = stream->next;
			continue;
		}
		sim_wait_locked(stream->last);
		stream = context->streams; /* the list may have changed meanwhile */
	}
}
