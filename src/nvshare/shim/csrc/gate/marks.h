/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marks of all threads: what each thread says of itself for others to see, without a lock.
 *
 * A thread sets its mark first and then looks whether it may go on (nvs_mark_order between the
 * two). Whoever wants to keep threads out changes what they look at first, and then waits for the
 * marks. So either the thread sees the change or the other one sees the mark.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gate/device.h"

#define NVS_STREAM_CACHE 16

struct nvs_pacing;

/*
 * What every submission to one device touches. Between two launches a program uses up the caches,
 * and then a line that has to be fetched costs more than all that is done with it; the first
 * device's part shares the line of what stands before it in the mark.
 */
struct nvs_mark_device {
	_Atomic uint64_t submissions;
	/* Owned by pacing.c: it looks at this number of submissions, or at another stream. */
	uint64_t look_at;
	void *stream;
	struct nvs_pacing *pacing; /* NULL: none yet */
};

/*
 * One for each thread that ever called the driver; never freed, used again after the thread's end.
 * Others read the atomic fields only.
 */
struct nvs_mark {
	_Atomic uint64_t devices; /* a bit for every device that a call in flight may submit to */
	/* calls in flight: a driver may call its own exported functions */
	unsigned int depth;
	_Atomic unsigned int inside; /* how deep it is in what the door is for (door.h) */
	_Atomic bool taken;	     /* by a living thread */
	_Atomic bool looking;	     /* asks about events, in the thread's own capture mode */
	bool submits;		     /* has come to a gate: its context then was noted */
	struct nvs_mark_device by_device[NVS_MAX_DEVICES];
	struct nvs_mark *next;
	struct {
		void *stream;
		uint32_t generation;
		struct nvs_device *device;
	} streams[NVS_STREAM_CACHE]; /* owned by streams.c */
} __attribute__((aligned(128)));

/* The calling thread's mark; NULL: it has none yet. */
extern __thread struct nvs_mark *nvs_mark_mine
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
/* There is no membarrier: each thread has to order its own accesses. */
extern _Atomic bool nvs_marks_fenced;

/*
 * Between setting the mark and looking. With membarrier this keeps only the compiler from changing
 * the order; the processors are told by the one who waits.
 */
static inline void nvs_mark_order(void)
{
	if (atomic_load_explicit(&nvs_marks_fenced, memory_order_relaxed))
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Asks the kernel for what nvs_marks_order needs; false: it has none. A process with threads waits
 * ten milliseconds for that, one without does not, and whoever has asked before does not.
 */
bool nvs_marks_register(void);
/*
 * Before the first device is used, also in a forked child. Not from two threads at a time.
 * `thread_ended` is called in a thread that ends, before its mark can become another one's.
 */
void nvs_marks_prepare(void (*thread_ended)(const struct nvs_mark *mark));
/* The calling thread's mark; makes it when it has none. NULL: no memory. */
struct nvs_mark *nvs_mark_take(void);
/* The same in a thread of ours, which nobody would begin again: it waits for memory. */
void nvs_mark_await(void);
/*
 * After a gate was closed: a call that found it in a state from before is seen by nvs_marks_set
 * from here on, until it has ended.
 */
void nvs_marks_order(void);
/* Calls are in flight on the device. Those that look at its gate now and will not pass count too.
 */
bool nvs_marks_set(const struct nvs_device *device);
/* The same for all devices and the door. */
bool nvs_marks_inside(void);
/* Returns when no thread asks about events that began to before this call. */
void nvs_marks_wait_looks(void);
/* Submissions to the device so far, on all threads; only its changes mean something. */
uint64_t nvs_marks_submissions(const struct nvs_device *device);
/* Puts that number into the report (process/report.h). NULL: no device. */
void nvs_marks_report(const struct nvs_device *device);
/* In a forked child: the other threads are gone. */
void nvs_marks_forked(void);
