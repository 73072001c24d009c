/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated driver's own view of itself: the objects behind the handles, and what its files
 * offer one another.
 *
 * One mutex, sim.lock, protects every object of this process; functions whose name ends in
 * _locked want it held. sim.changed is broadcast whenever an operation completes, a queue gets
 * shorter, or a range is unpinned. Operations execute without the lock, on their stream's thread
 * (stream/stream_queue.c), with the memory that they touch pinned (memory/pin.c).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../../cuda/abi.h"
#include "../shared/record.h"
#include "../shared/state.h"

#define SIM_DRIVER_VERSION 13000
#define SIM_LIMITS 11
#define SIM_GREATEST_PRIORITY (-5)

/* What a handle may be; a handle is a pointer to an object that registry.c knows. */
enum sim_type {
	SIM_CONTEXT = 1,
	SIM_STREAM,
	SIM_EVENT,
	SIM_MODULE,
	SIM_FUNCTION,
	SIM_LIBRARY,
	SIM_KERNEL,
	SIM_ARRAY,
	SIM_POOL,
	SIM_GRAPH,
	SIM_NODE,
	SIM_EXEC,
	SIM_PHYSICAL
};

struct sim_op;
struct sim_capture;

/*
 * The completion of an operation; counted, because streams, events and later operations refer to
 * it.
 */
struct sim_fence {
	unsigned int references;
	bool done;
	uint64_t time_ns;
};

struct CUctx_st {
	int device;
	unsigned int flags;
	unsigned int api_version;
	unsigned int retained; /* primary contexts: how often */
	bool is_primary;
	bool launched;	   /* a kernel, and took the memory for it */
	_Atomic int error; /* sticky: what every later call answers */
	uint64_t id;
	struct CUstream_st *streams; /* all, the legacy one and those of threads included */
	struct CUstream_st *legacy;
	struct CUstream_st *recorder; /* events of the whole context wait in it; NULL: never one */
	uint64_t peers;		      /* bit mask of devices whose memory its kernels may touch */
	size_t limits[SIM_LIMITS];
	int cache_config;
	int shared_config;
	struct CUctx_st *ended_before; /* of one that has ended */
};

struct CUstream_st {
	struct CUctx_st *context;
	struct CUstream_st *next;
	unsigned int flags;
	int priority;
	uint64_t id;
	uint64_t thread; /* whose default stream it is; 0: nobody's */
	/* the queue; the running operation is its head */
	struct sim_op *head;
	struct sim_op **tail;
	unsigned int depth;
	struct sim_fence *last; /* of the operation that was queued last; NULL: never one */
	pthread_cond_t work;
	bool has_thread;
	bool closing;
	/* capture */
	struct sim_capture *capture;
	struct CUgraphNode_st **capture_tail;
	size_t capture_tail_count;
	CUlaunchAttributeValue attributes[16];
};

struct CUevent_st {
	struct CUctx_st *context;
	uint64_t id;
	unsigned int flags;
	struct sim_fence *fence; /* of the last record; NULL: never recorded */
	uint64_t capture_id;	 /* last recorded inside this capture; 0: outside */
	struct CUgraphNode_st **nodes;
	size_t node_count;
};

/* sim.c */

enum sim_phase {
	SIM_UNTOUCHED,
	SIM_READY,
	SIM_FORKED
};

struct sim_executor;

struct sim_globals {
	_Atomic int phase;		     /* enum sim_phase */
	const struct sim_executor *executor; /* of operations */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct sim_state state;
	struct sim_record *records[SIM_MAX_DEVICES];
	struct CUctx_st *primary[SIM_MAX_DEVICES]; /* active ones */
	struct CUctx_st *ended;			   /* the last one */
	unsigned int primary_flags[SIM_MAX_DEVICES];
	_Atomic int died[SIM_MAX_DEVICES]; /* the error of a context: no other one begins */
	uint64_t last_id;
	uint64_t queued; /* operations in streams that have not completed */
};

extern struct sim_globals sim;
/* This thread is calling a function of the program, which must not call the driver. */
extern __thread bool sim_in_callback;

/*
 * What every entry point does first: leave a trace, and see whether the driver may be used at all.
 */
CUresult sim_enter(const char *symbol);
/* The same for the few entry points that work before cuInit. */
CUresult sim_enter_early(const char *symbol);
/* Starts a thread that nobody waits for, and that gets no signal of the program's. */
bool sim_start_thread(void *(*run)(void *), void *argument);
void sim_lock(void);
void sim_unlock(void);
uint64_t sim_now_ns(void);
void sim_sleep_until_ns(uint64_t when);
int sim_device_count(void);
bool sim_device_exists(CUdevice device);

/* registry.c */

void sim_register_locked(void *object, enum sim_type type);
void sim_forget_locked(void *object);
bool sim_is_locked(const void *object, enum sim_type type);

/* device/current.c */

/*
 * The calling thread's context, with its sticky error: CUDA_ERROR_INVALID_CONTEXT if there is none.
 */
CUresult sim_current(struct CUctx_st **context);
/* A fault of what runs in it: it answers this to everything, and this process has no other one. */
void sim_context_fail(struct CUctx_st *context, int error);
struct CUctx_st *sim_current_locked(void);
/* A number of the calling thread that no other thread has or had. */
uint64_t sim_thread_id(void);
/* Makes it the calling thread's current one, over the one that is. */
CUresult sim_push(struct CUctx_st *context);
/* It is not the current one any more, if it was. */
void sim_leave(const struct CUctx_st *context);

#define SIM_KIB(n) ((size_t)(n) << 10)
#define SIM_MIB(n) ((size_t)(n) << 20)

static inline uint64_t sim_round_up(uint64_t value, uint64_t step)
{
	return (value + step - 1) / step * step;
}

#include "entry/prototypes.inc"
