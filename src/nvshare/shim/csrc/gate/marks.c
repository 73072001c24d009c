/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of marks. No lock: the list only grows, and a mark's owner is the thread that set
 * `taken`.
 *
 * The two sides of a mark store one thing and load another: the thread stores its mark and loads
 * the gate, the closer stores the gate and loads the marks. A processor may carry out a load before
 * a store that stands in front of it, and if both did that, the closer would find no mark and the
 * thread an open gate, and work would be submitted after LOCK_RELEASED. So both need a full
 * barrier. Launches are frequent and closing is rare, so the closer pays for both: membarrier makes
 * every processor that runs a thread of this process execute a barrier, and costs the threads
 * nothing.
 *
 * A litmus test (tests/shim/programs/barrier.py) makes marks be seen late and fails without the
 * barrier, on x86 too. The release stores and acquire loads elsewhere it can't show: x86 keeps
 * those orders by itself, and only a litmus run on a weaker processor could.
 */
#define _GNU_SOURCE
#include "gate/marks.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "process/ends.h"
#include "process/report.h"

/*
 * Between two looks at a thread that asks the driver about an event, which takes it a microsecond
 * unless it is interrupted. A thread that yields instead gets little of a busy processor, and looks
 * like one that computes.
 */
#define LOOK_NS 20000L
#define NO_MEMORY_NS 10000000L /* before it is tried again */

__thread struct nvs_mark *nvs_mark_mine
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
_Atomic bool nvs_marks_fenced;

/*
 * A mark is never freed: waiting threads walk the list without a lock, and what a thread that ended
 * had submitted still counts.
 */
static _Atomic(struct nvs_mark *) marks;
static pthread_key_t key; /* its destructor sees the ends of threads */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;
static void (*on_thread_end)(const struct nvs_mark *mark);

static void give_back(void *data)
{
	struct nvs_mark *mark = data;

	/* First: the captures of the next owner must not be taken for this one's. */
	if (on_thread_end)
		on_thread_end(mark);
	/*
	 * A thread that was cancelled in a call is in it no more; a drain would wait for it for
	 * ever.
	 */
	mark->depth = 0;
	mark->submits = false;
	atomic_store_explicit(&mark->looking, false, memory_order_release);
	atomic_store_explicit(&mark->devices, 0, memory_order_release);
	atomic_store_explicit(&mark->inside, 0, memory_order_release);
	/* A destructor that runs after this one may submit again; then it takes a mark again. */
	nvs_mark_mine = NULL;
	/* Released, and acquired in find_free: the next owner goes on with the plain fields. */
	atomic_store_explicit(&mark->taken, false, memory_order_release);
}

bool nvs_marks_register(void)
{
	NVS_KEEP_ERRNO;

	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

void nvs_marks_prepare(void (*thread_ended)(const struct nvs_mark *mark))
{
	on_thread_end = thread_ended;
	/*
	 * An old kernel or a sandbox may have no membarrier. No device is known yet, so no gate or
	 * door can have been closed for a thread that went on without its own fence.
	 */
	if (!nvs_marks_register())
		atomic_store_explicit(&nvs_marks_fenced, true, memory_order_seq_cst);
}

static struct nvs_mark *find_free(void)
{
	for (struct nvs_mark *mark = atomic_load_explicit(&marks, memory_order_acquire); mark;
	     mark = mark->next) {
		bool taken = false;

		if (atomic_compare_exchange_strong_explicit(
			    &mark->taken, &taken, true, memory_order_acquire, memory_order_relaxed))
			return mark;
	}
	return NULL;
}

static struct nvs_mark *make(void)
{
	void *memory;
	struct nvs_mark *mark;

	if (posix_memalign(&memory, _Alignof(struct nvs_mark), sizeof(*mark)))
		return NULL;
	mark = memset(memory, 0, sizeof(*mark));
	atomic_store_explicit(&mark->taken, true, memory_order_relaxed);
	mark->next = atomic_load_explicit(&marks, memory_order_relaxed);
	/*
	 * The mark is in the list before its owner looks at a gate: to somebody who closes the gate
	 * a mark that is not in the list would be one that is not set.
	 */
	while (!atomic_compare_exchange_weak_explicit(&marks, &mark->next, mark,
						      memory_order_seq_cst, memory_order_relaxed))
		;
	return mark;
}

static void make_key(void)
{
	key_made = !pthread_key_create(&key, give_back);
}

struct nvs_mark *nvs_mark_take(void)
{
	struct nvs_mark *mark = nvs_mark_mine;

	if (mark)
		return mark;
	pthread_once(&key_once, make_key);
	mark = find_free();
	if (!mark)
		mark = make();
	if (mark && key_made)
		pthread_setspecific(key, mark);
	nvs_mark_mine = mark;
	return mark;
}

void nvs_mark_await(void)
{
	while (!nvs_mark_take())
		nanosleep(&(struct timespec){ .tv_nsec = NO_MEMORY_NS }, NULL);
}

/*
 * What this thread wrote is seen by all others that pass nvs_mark_order() from here on, and what
 * they wrote before it is seen by this one. Where membarrier fails it failed at its registration
 * too, and the others have fences of their own.
 */
void nvs_marks_order(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		atomic_thread_fence(memory_order_seq_cst);
}

void nvs_marks_wait_looks(void)
{
	NVS_KEEP_ERRNO;

	/*
	 * For the same reason as in a drain. This happens once in a process, so no test can repeat
	 * it until two processors disagree.
	 */
	nvs_marks_order();
	for (struct nvs_mark *mark = atomic_load_explicit(&marks, memory_order_seq_cst); mark;
	     mark = mark->next)
		while (atomic_load_explicit(&mark->looking, memory_order_seq_cst))
			nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

bool nvs_marks_set(const struct nvs_device *device)
{
	uint64_t bit = 1ULL << device->ordinal;

	for (struct nvs_mark *mark = atomic_load_explicit(&marks, memory_order_seq_cst); mark;
	     mark = mark->next)
		if (atomic_load_explicit(&mark->devices, memory_order_seq_cst) & bit)
			return true;
	return false;
}

bool nvs_marks_inside(void)
{
	for (struct nvs_mark *mark = atomic_load_explicit(&marks, memory_order_seq_cst); mark;
	     mark = mark->next)
		if (atomic_load_explicit(&mark->devices, memory_order_seq_cst) ||
		    atomic_load_explicit(&mark->inside, memory_order_seq_cst))
			return true;
	return false;
}

uint64_t nvs_marks_submissions(const struct nvs_device *device)
{
	uint64_t sum = 0;

	for (struct nvs_mark *mark = atomic_load_explicit(&marks, memory_order_acquire); mark;
	     mark = mark->next)
		sum += atomic_load_explicit(&mark->by_device[device->ordinal].submissions,
					    memory_order_relaxed);
	return sum;
}

void nvs_marks_report(const struct nvs_device *device)
{
	struct nvs_report_device *report = device ? nvs_report_device(device->ordinal) : NULL;

	if (report)
		report->submissions = nvs_marks_submissions(device);
}

void nvs_marks_forked(void)
{
	/*
	 * The calls in flight of the parent's other threads will never end here. Their marks are
	 * free at once; the surviving thread keeps its own.
	 */
	for (struct nvs_mark *mark = atomic_load_explicit(&marks, memory_order_relaxed); mark;
	     mark = mark->next) {
		atomic_store_explicit(&mark->devices, 0, memory_order_relaxed);
		atomic_store_explicit(&mark->inside, 0, memory_order_relaxed);
		atomic_store_explicit(&mark->looking, false, memory_order_relaxed);
		atomic_store_explicit(&mark->taken, mark == nvs_mark_mine, memory_order_relaxed);
		mark->depth = 0;
	}
}
