/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations and the streams that execute them in order. An operation is data: what a graph's node
 * holds, what a capture notes down and what a stream's thread executes are the same thing.
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "sim.h"

#define SIM_QUEUE_DEPTH 1023
#define SIM_MAX_PARAMETERS 8
#define SIM_PARAMETER_BYTES 64

struct sim_kernel;
struct sim_steps;

enum sim_op_kind {
	SIM_OP_EMPTY, /* waits for what it depends on */
	SIM_OP_KERNEL,
	SIM_OP_COPY,
	SIM_OP_MEMSET,
	SIM_OP_HOST,
	SIM_OP_CALLBACK,
	SIM_OP_EVENT,
	SIM_OP_EVENT_WAIT, /* in graphs only: streams wait by a fence */
	SIM_OP_WAIT_VALUE,
	SIM_OP_WRITE_VALUE,
	SIM_OP_PREFETCH,
	SIM_OP_ALLOC, /* in graphs only */
	SIM_OP_FREE,
	SIM_OP_GRAPH
};

/* One side of a copy, as addresses: rows of `pitch` bytes, slices of `slice` bytes. */
struct sim_place {
	uint64_t address;
	uint64_t pitch;
	uint64_t slice;
	bool host; /* the caller said that it is host memory */
	bool array;
};

struct sim_copy {
	struct sim_place src;
	struct sim_place dst;
	uint64_t width; /* in bytes */
	uint64_t height;
	uint64_t depth;
	void *staged;  /* the source's bytes, taken at the call; freed with the operation */
	bool over_bus; /* from or to host memory: takes the time that a bus would */
};

struct sim_memset {
	uint64_t address;
	uint64_t pitch;
	uint64_t width; /* in elements */
	uint64_t height;
	uint32_t value;
	uint32_t element_bytes;
};

struct sim_launch {
	struct CUfunc_st *function;
	const struct sim_kernel *kernel;
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	unsigned char parameters[SIM_PARAMETER_BYTES];
};

struct sim_op {
	enum sim_op_kind kind;
	struct CUctx_st *context;
	union {
		struct sim_launch launch;
		struct sim_copy copy;
		struct sim_memset memset;
		struct {
			CUhostFn function;
			void *data;
		} host;
		struct {
			CUstreamCallback function;
			void *data;
			CUstream stream; /* as the program called it */
		} callback;
		struct {
			struct CUevent_st *event; /* in graphs only */
			uint64_t id;		  /* tells it from a later one at the same place */
		} event;
		struct {
			uint64_t address;
			uint64_t value;
			unsigned int bytes;
			unsigned int flags;
		} word;
		struct {
			uint64_t address;
			uint64_t bytes;
		} memory; /* SIM_OP_ALLOC, SIM_OP_FREE, SIM_OP_PREFETCH */
		struct {
			struct sim_steps *steps;
			/* one a step: what its event's record completes; else NULL */
			struct sim_fence **fences;
		} graph;
	} u;
	/* while it is in a stream */
	struct sim_op *next;
	struct sim_fence *fence;
	struct sim_fence **waits;
	size_t wait_count;
};

/* fence.c */
struct sim_fence *sim_fence_new(void);
struct sim_fence *sim_fence_ref(struct sim_fence *fence);
void sim_fence_unref(struct sim_fence *fence);

/* engine.c */

/*
 * Queues a copy of the operation; waits while the queue is full. A stream that is capturing gets a
 * node instead. The fence, if asked for, belongs to the caller then, and is NULL when a node was
 * made.
 */
CUresult sim_submit(CUstream stream, const struct sim_op *op, struct sim_fence **fence);
/*
 * The same with the lock held (which is let go of while the queue is full), for a stream that is
 * not capturing.
 */
struct sim_fence *sim_queue_locked(struct CUstream_st *stream, const struct sim_op *op);
/* Makes the stream's later operations wait for a fence. */
void sim_queue_wait_locked(struct CUstream_st *stream, struct sim_fence *fence);
void sim_wait_locked(struct sim_fence *fence);
/* Waits until everything that was queued in a context has completed. */
void sim_context_idle_locked(struct CUctx_st *context);
bool sim_stream_idle_locked(struct CUstream_st *stream);
void sim_stream_wait_locked(struct CUstream_st *stream);
/* Submits and waits: the synchronous forms. */
CUresult sim_submit_and_wait(CUstream stream, const struct sim_op *op);

/* execute.c */
CUresult sim_execute(const struct sim_op *op);
/* What is left to do for an operation whose context is broken. */
void sim_fail(const struct sim_op *op, CUresult error);

/* stream.c */

/*
 * The stream object behind a handle of the program. Wants a current context for the default ones.
 */
CUresult sim_stream_locked(CUstream handle, struct CUstream_st **stream);
struct CUstream_st *sim_stream_new_locked(struct CUctx_st *context, unsigned int flags,
					  int priority);
/* Lets the queue run empty in the background, then frees the stream. */
void sim_stream_close_locked(struct CUstream_st *stream);
void sim_stream_free_locked(struct CUstream_st *stream);

/* kernels.c */

struct sim_kernel {
	const char *name;
	unsigned int parameter_count;
	unsigned int sizes[SIM_MAX_PARAMETERS];
	CUresult (*run)(struct CUctx_st *context, const unsigned char *parameters);
};

const struct sim_kernel *sim_kernel_find(const char *name);
unsigned int sim_kernel_offset(const struct sim_kernel *kernel, unsigned int index);
unsigned int sim_kernel_parameter_bytes(const struct sim_kernel *kernel);

/* copy.c, memset.c: execute one */
CUresult sim_copy_run(struct CUctx_st *context, const struct sim_copy *copy);
CUresult sim_memset_run(struct CUctx_st *context, const struct sim_memset *set);

#endif
