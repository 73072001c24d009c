/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the gates' states and the threads' marks: the slow paths of pass.h, and opening. Closing for
 * a drain is in drain.c.
 *
 * No lock. A gate's state is written by its client thread (and in a forked child); waiting threads
 * sleep on gate.wakeups. The list of marks only grows, and a mark's owner is the thread that set
 * `taken`.
 */
#define _GNU_SOURCE
#include "gate.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "client.h"
#include "marks.h"
#include "pass.h"

__thread struct nvs_mark *nvs_mark_mine
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
_Atomic bool nvs_gate_fenced;

static _Atomic(struct nvs_mark *) nvs_marks;
static pthread_key_t nvs_mark_key;
static bool nvs_mark_key_made;

static void nvs_mark_give_back(void *data)
{
	struct nvs_mark *mark = data;

	nvs_capture_thread_ended(mark);
	nvs_mark_mine = NULL;
	atomic_store_explicit(&mark->taken, false, memory_order_release);
}

void nvs_marks_prepare(void)
{
	if (!nvs_mark_key_made)
		nvs_mark_key_made = !pthread_key_create(&nvs_mark_key, nvs_mark_give_back);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		atomic_store_explicit(&nvs_gate_fenced, true, memory_order_seq_cst);
}

static struct nvs_mark *nvs_mark_find_free(void)
{
	for (struct nvs_mark *mark = atomic_load_explicit(&nvs_marks, memory_order_acquire); mark;
	     mark = mark->next) {
		bool taken = false;

		if (atomic_compare_exchange_strong_explicit(
			    &mark->taken, &taken, true, memory_order_acquire, memory_order_relaxed))
			return mark;
	}
	return NULL;
}

static struct nvs_mark *nvs_mark_make(void)
{
	void *memory;
	struct nvs_mark *mark;

	if (posix_memalign(&memory, _Alignof(struct nvs_mark), sizeof(*mark)))
		return NULL;
	mark = memset(memory, 0, sizeof(*mark));
	atomic_store_explicit(&mark->taken, true, memory_order_relaxed);
	mark->next = atomic_load_explicit(&nvs_marks, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&nvs_marks, &mark->next, mark,
						      memory_order_seq_cst, memory_order_relaxed))
		;
	return mark;
}

struct nvs_mark *nvs_mark_take(void)
{
	struct nvs_mark *mark = nvs_mark_mine;

	if (mark)
		return mark;
	mark = nvs_mark_find_free();
	if (!mark)
		mark = nvs_mark_make();
	if (mark && nvs_mark_key_made)
		pthread_setspecific(nvs_mark_key, mark);
	nvs_mark_mine = mark;
	return mark;
}

/* What this thread wrote is seen by all others that pass nvs_gate_order() from here on. */
static void nvs_marks_order(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		atomic_thread_fence(memory_order_seq_cst);
}

void nvs_marks_wait_looks(void)
{
	nvs_marks_order();
	for (struct nvs_mark *mark = atomic_load_explicit(&nvs_marks, memory_order_seq_cst); mark;
	     mark = mark->next)
		while (atomic_load_explicit(&mark->looking, memory_order_seq_cst))
			sched_yield();
}

void nvs_marks_wait(const struct nvs_device *device)
{
	uint64_t bit = 1ULL << device->ordinal;

	nvs_marks_order();
	for (struct nvs_mark *mark = atomic_load_explicit(&nvs_marks, memory_order_seq_cst); mark;
	     mark = mark->next) {
		/*
		 * A call may block in the driver for as long as the work before it takes: look less
		 * often after a while.
		 */
		struct timespec pause = { .tv_nsec = 20000 };

		for (int looks = 0;
		     atomic_load_explicit(&mark->devices, memory_order_seq_cst) & bit; looks++) {
			if (looks < 100) {
				sched_yield();
				continue;
			}
			nanosleep(&pause, NULL);
			if (pause.tv_nsec < 1000000)
				pause.tv_nsec *= 2;
		}
	}
}

void nvs_marks_forked(void)
{
	for (struct nvs_mark *mark = atomic_load_explicit(&nvs_marks, memory_order_relaxed); mark;
	     mark = mark->next) {
		atomic_store_explicit(&mark->devices, 0, memory_order_relaxed);
		atomic_store_explicit(&mark->looking, false, memory_order_relaxed);
		atomic_store_explicit(&mark->taken, mark == nvs_mark_mine, memory_order_relaxed);
		mark->depth = 0;
	}
}

static bool nvs_gate_passes(struct nvs_pass *pass, int state)
{
	switch (state) {
	case NVS_GATE_OPEN:
		return true;
	case NVS_GATE_CLOSING:
		/*
		 * The lock is still held and the drain waits for the captures' end, which may need
		 * this call.
		 */
		return nvs_captures_going_on();
	case NVS_GATE_CLOSED:
		/*
		 * What is captured is not submitted. The second device of a peer copy shares the
		 * first one's stream.
		 */
		if (!pass->capturing && nvs_captures_going_on())
			pass->capturing = nvs_capture_pass(pass->stream);
		return pass->capturing;
	default:
		return false;
	}
}

static void nvs_gate_wait(struct nvs_device *device, int seen)
{
	struct nvs_gate *gate = &device->gate;
	uint32_t wakeups;

	nvs_client_want(device);
	atomic_fetch_add(&gate->waiting, 1);
	wakeups = atomic_load(&gate->wakeups);
	if (atomic_load(&gate->state) == seen)
		syscall(SYS_futex, &gate->wakeups, FUTEX_WAIT_PRIVATE, wakeups, NULL, NULL, 0);
	atomic_fetch_sub(&gate->waiting, 1);
}

/*
 * The first device of the mask whose gate does not let the call pass now, and the state that it was
 * seen in; NULL: all do.
 */
static struct nvs_device *nvs_gate_obstacle(struct nvs_pass *pass, uint64_t mask, int *seen)
{
	for (int ordinal = 0; mask; ordinal++, mask >>= 1) {
		struct nvs_device *device = mask & 1 ? nvs_device_known(ordinal) : NULL;

		if (!device)
			continue;
		*seen = atomic_load_explicit(&device->gate.state, memory_order_acquire);
		if (!nvs_gate_passes(pass, *seen))
			return device;
	}
	return NULL;
}

CUresult nvs_gate_enter_mask(struct nvs_pass *pass, uint64_t mask, void *stream)
{
	struct nvs_mark *mark = nvs_mark_take();
	int saved = errno, seen = NVS_GATE_OPEN;
	CUresult result = CUDA_SUCCESS;

	*pass = (struct nvs_pass){ .mark = mark, .stream = stream };
	if (!mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (mark->depth++)
		return CUDA_SUCCESS;
	for (;;) {
		struct nvs_device *obstacle;

		/*
		 * All or none: a call that waits for one device must not keep another one from
		 * being drained.
		 */
		atomic_store_explicit(&mark->devices, mask, memory_order_relaxed);
		nvs_gate_order();
		obstacle = nvs_gate_obstacle(pass, mask, &seen);
		if (!obstacle)
			break;
		if (pass->capturing)
			nvs_capture_passed();
		pass->capturing = false;
		atomic_store_explicit(&mark->devices, 0, memory_order_release);
		if (seen == NVS_GATE_FAILING) {
			mark->depth--;
			result = CUDA_ERROR_SYSTEM_NOT_READY;
			break;
		}
		nvs_gate_wait(obstacle, seen);
	}
	errno = saved;
	return result;
}

CUresult nvs_gate_enter_slowly(struct nvs_pass *pass, void *stream)
{
	struct nvs_mark *mark = nvs_mark_mine;
	struct nvs_device *device;
	CUresult result;

	if (mark && mark->depth) {
		mark->depth++;
		*pass = (struct nvs_pass){ .mark = mark };
		return CUDA_SUCCESS;
	}
	device = nvs_device_of(stream);
	if (!device) { /* no context: the driver will say so */
		*pass = (struct nvs_pass){ 0 };
		return CUDA_SUCCESS;
	}
	result = nvs_gate_enter_mask(pass, 1ULL << device->ordinal, stream);
	pass->device = device;
	return result;
}

void nvs_gate_hold(struct nvs_pass *pass, struct nvs_device *device)
{
	struct nvs_mark *mark = device ? nvs_mark_take() : NULL;

	*pass = (struct nvs_pass){ .mark = mark };
	if (mark && !mark->depth++)
		atomic_store_explicit(&mark->devices, 1ULL << device->ordinal,
				      memory_order_seq_cst);
}

void nvs_gate_leave_slowly(struct nvs_pass *pass)
{
	struct nvs_mark *mark = pass->mark;
	uint64_t mask;

	if (!mark || --mark->depth)
		return;
	mask = atomic_load_explicit(&mark->devices, memory_order_relaxed);
	for (int ordinal = 0; mask; ordinal++, mask >>= 1)
		if (mask & 1)
			atomic_fetch_add_explicit(&mark->submissions[ordinal], 1,
						  memory_order_relaxed);
	atomic_store_explicit(&mark->devices, 0, memory_order_release);
	if (pass->capturing)
		nvs_capture_passed();
}

static void nvs_gate_wake(struct nvs_device *device, int state)
{
	int saved = errno;

	atomic_store(&device->gate.state, state);
	atomic_fetch_add(&device->gate.wakeups, 1);
	syscall(SYS_futex, &device->gate.wakeups, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	errno = saved;
}

void nvs_gate_open(struct nvs_device *device)
{
	nvs_gate_wake(device, NVS_GATE_OPEN);
}

void nvs_gate_fail(struct nvs_device *device)
{
	nvs_gate_wake(device, NVS_GATE_FAILING);
}

uint64_t nvs_gate_submissions(struct nvs_device *device)
{
	uint64_t sum = 0;

	for (struct nvs_mark *mark = atomic_load_explicit(&nvs_marks, memory_order_acquire); mark;
	     mark = mark->next)
		sum += atomic_load_explicit(&mark->submissions[device->ordinal],
					    memory_order_relaxed);
	return sum;
}
