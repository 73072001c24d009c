/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations. An operation is data: what a graph's node holds, what a capture records and what a
 * stream's thread executes are the same thing.
 */
#pragma once

#include "sim.h"

#define SIM_MAX_PARAMETERS 8
#define SIM_PARAMETER_BYTES 640 /* enough for those of kernels.c */

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

/* What a copy takes the time of: the bus to one of its ends, or none. */
enum sim_route {
	SIM_ROUTE_NO_BUS,
	SIM_ROUTE_TO_DEVICE,
	SIM_ROUTE_TO_HOST
};

/* One side of a copy, as addresses: rows of `pitch` bytes, slices of `slice` bytes. */
struct sim_place {
	uint64_t address;
	uint64_t pitch;
	uint64_t slice;
	bool host; /* the caller said that it is host memory */
	bool array;
	struct CUctx_st *context; /* whose device must have access; NULL: the operation's */
};

struct sim_copy {
	struct sim_place src;
	struct sim_place dst;
	uint64_t width; /* in bytes */
	uint64_t height;
	uint64_t depth;
	void *staged; /* the source's bytes, taken at the call; freed with the operation */
	enum sim_route route;
	bool pageable; /* a side is host memory that nobody registered */
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
			int device; /* of a prefetch; -1: to the host */
		} memory;	    /* SIM_OP_ALLOC, SIM_OP_FREE, SIM_OP_PREFETCH */
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

/*
 * What is done with an operation, whatever its kind. The streams and graphs that execute operations
 * call it by sim.executor: what an operation does may end in another submission.
 */
struct sim_executor {
	CUresult (*execute)(const struct sim_op *op);
	/* What is left to do for an operation whose context is broken. */
	void (*fail)(const struct sim_op *op, CUresult error);
	/* Frees what belongs to it. */
	void (*free_locked)(struct sim_op *op);
};

/* op_execute.c */
extern const struct sim_executor sim_executor;
