/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: their handles, and the queues of operations that they execute in order. */
#pragma once

#include "stream/op.h"

#define SIM_QUEUE_DEPTH 1023

/* submit.c */

/*
 * Queues a copy of the operation; waits while the queue is full. A stream that is capturing gets a
 * node instead. The fence, if asked for, belongs to the caller then, and is NULL when a node was
 * made.
 */
CUresult sim_submit(CUstream stream, const struct sim_op *op, struct sim_fence **fence);
/* Submits and waits: the synchronous forms. */
CUresult sim_submit_and_wait(CUstream stream, const struct sim_op *op);

/* stream_queue.c */

/*
 * Queues a copy of the operation, for a stream that is not capturing. The lock is released while
 * the queue is full.
 */
struct sim_fence *sim_queue_locked(struct CUstream_st *stream, const struct sim_op *op);
/* Makes the stream's later operations wait for a fence. */
void sim_queue_wait_locked(struct CUstream_st *stream, struct sim_fence *fence);
void sim_wait_locked(struct sim_fence *fence);
/* Waits until everything that was queued in a context has completed. */
void sim_context_idle_locked(struct CUctx_st *context);
bool sim_stream_idle_locked(struct CUstream_st *stream);
void sim_stream_wait_locked(struct CUstream_st *stream);
void sim_stream_free_locked(struct CUstream_st *stream);

/* stream.c */

/* The stream object behind a handle of the program. The default streams need a current context. */
CUresult sim_stream_locked(CUstream handle, struct CUstream_st **stream);
struct CUstream_st *sim_stream_new_locked(struct CUctx_st *context, unsigned int flags,
					  int priority);
/* Lets the queue run empty in the background, then frees the stream. */
void sim_stream_close_locked(struct CUstream_st *stream);
