/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of captures that are going on. The driver ends a capture with an error as soon as
 * any thread synchronizes, so a drain has to know of every capture, and to wait for its end; and a
 * capture that ends without our knowing it would make every later drain wait for ever.
 *
 * `lock` protects the list and the counts beside it, and is signalled when they change. `ending` is
 * held for reading by calls that pass a closed gate because they are captured, and for
 * writing around what ends a capture, so that none of them is submitted after all. Neither is held
 * while the dynamic loader is called, and no thread is cancelled while it holds `ending`.
 */
#define _GNU_SOURCE
#include "gate/capture.h"

#include <pthread.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "gate/marks.h"
#include "process/ends.h"
#include "process/mutex.h"
#include "process/thread.h"

/*
 * A thread's own default stream has the same number in all threads: there `owner` makes the
 * difference.
 */
struct nvs_capture {
	struct nvs_capture *next;
	CUstream stream;
	CUcontext context;
	const struct nvs_mark *owner;
};

_Atomic int nvs_captures;
_Atomic bool nvs_capture_ever;

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_CAPTURES);
static pthread_rwlock_t ending = PTHREAD_RWLOCK_INITIALIZER;
static struct nvs_capture *captures;
static int forbidden;	   /* synchronizations that go on */
static int forbidding;	   /* drains that wait for the captures' end */
static _Atomic int wanted; /* threads that wait to begin one */

/*
 * With the lock held. No capture begins while a drain waits, or a program that always captures
 * would never give the lock back. But among captures that already go on another one may begin: they
 * may need it to end.
 */
static bool may_begin(void)
{
	return !forbidden && !(forbidding && !captures);
}

bool nvs_capture_begin(CUstream stream, struct nvs_capture **begun)
{
	struct nvs_capture *capture = malloc(sizeof(*capture));
	NVS_KEEP_ERRNO;
	bool begins;

	*begun = NULL;
	if (!capture)
		return false;
	*capture = (struct nvs_capture){ .stream = stream };
	if (stream == CU_STREAM_PER_THREAD)
		capture->owner = nvs_mark_take();
	if (!stream || stream == CU_STREAM_PER_THREAD ||
	    NVS_CALL(cuStreamGetCtx, stream, &capture->context) != CUDA_SUCCESS)
		NVS_CALL(cuCtxGetCurrent, &capture->context);
	/* Until nvs_capture_begun: of a thread that ended here nobody would know whether it began.
	 */
	nvs_cancel_off();
	/*
	 * In the list before the driver begins it: a drain that came in between would synchronize
	 * and end it.
	 */
	nvs_mutex_lock(&lock);
	begins = may_begin();
	if (begins) {
		capture->next = captures;
		captures = capture;
		atomic_fetch_add(&nvs_captures, 1);
	}
	nvs_mutex_unlock(&lock);
	if (!begins) {
		free(capture);
		nvs_cancel_on();
		return true;
	}
	/*
	 * Threads that ask about events now may not know yet that they have to do it in relaxed
	 * mode, and would end this capture. Those that begin to ask later find `nvs_capture_ever`
	 * set: mark and flag are stored and loaded in opposite orders here and in pacing.c, with
	 * the barriers of marks.c. Only a litmus run could show that one is missing.
	 */
	if (!atomic_exchange(&nvs_capture_ever, true))
		nvs_marks_wait_looks();
	*begun = capture;
	return true;
}

void nvs_capture_await(void)
{
	NVS_HOLD(&lock);
	atomic_fetch_add(&wanted, 1);
	while (!may_begin())
		nvs_mutex_wait(&lock);
	atomic_fetch_sub(&wanted, 1);
}

/* Takes out the first capture that matches; NULL in `one`, `context`, `owner` or `stream`: any. */
static bool remove_first(const struct nvs_capture *one, CUstream stream, CUcontext context,
			 const struct nvs_mark *owner)
{
	struct nvs_capture **link, *found;

	nvs_mutex_lock(&lock);
	for (link = &captures; *link; link = &(*link)->next)
		if ((!one || *link == one) && (!stream || (*link)->stream == stream) &&
		    (!context || (*link)->context == context) &&
		    (!owner || (*link)->owner == owner))
			break;
	found = *link;
	if (found) {
		*link = found->next;
		atomic_fetch_sub(&nvs_captures, 1);
		nvs_mutex_changed(&lock);
	}
	nvs_mutex_unlock(&lock);
	free(found);
	return found != NULL;
}

void nvs_capture_begun(struct nvs_capture *capture, CUresult result)
{
	NVS_KEEP_ERRNO;

	if (result != CUDA_SUCCESS)
		remove_first(capture, NULL, NULL, NULL);
	nvs_cancel_on();
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (NVS_CALL(cuStreamIsCapturing, stream, &status) != CUDA_SUCCESS)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return status;
}

/*
 * A call that found its stream captured is on its way to the driver. If the capture ended before it
 * gets there, the call would be submitted, and the gate is closed: so the end waits for it.
 */
void nvs_capture_ending(void)
{
	nvs_cancel_off();
	pthread_rwlock_wrlock(&ending);
}

void nvs_capture_ended(CUstream stream, bool destroyed)
{
	const struct nvs_mark *owner = stream == CU_STREAM_PER_THREAD ? nvs_mark_mine : NULL;
	/* Asked before `ending` is given back: afterwards another thread may begin the next one. */
	bool over = destroyed || status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE;
	NVS_KEEP_ERRNO;

	pthread_rwlock_unlock(&ending);
	nvs_cancel_on();
	if (over && stream)
		remove_first(NULL, stream, NULL, owner);
}

/* The driver drops these captures without a call that would tell us. */
void nvs_capture_context_ended(CUcontext context)
{
	while (nvs_captures_going_on() && remove_first(NULL, NULL, context, NULL))
		;
}

/* Nor does a call tell us of those of a thread's own default stream, which ends with the thread. */
void nvs_capture_thread_ended(const struct nvs_mark *mark)
{
	while (nvs_captures_going_on() && remove_first(NULL, NULL, NULL, mark))
		;
}

bool nvs_capture_pass(CUstream stream)
{
	bool capturing;

	nvs_cancel_off();
	pthread_rwlock_rdlock(&ending);
	capturing = status_of(stream) != CU_STREAM_CAPTURE_STATUS_NONE;
	if (!capturing)
		nvs_capture_passed();
	return capturing;
}

void nvs_capture_passed(void)
{
	pthread_rwlock_unlock(&ending);
	nvs_cancel_on();
}

void nvs_capture_announce(void)
{
	NVS_HOLD(&lock);
	forbidding++;
}

void nvs_capture_forbid(void)
{
	NVS_HOLD(&lock);
	while (captures)
		nvs_mutex_wait(&lock);
	forbidding--;
	forbidden++;
}

bool nvs_capture_try_forbid(void)
{
	NVS_HOLD(&lock);
	forbidden += !captures;
	return !captures;
}

void nvs_capture_allow(void)
{
	NVS_HOLD(&lock);
	forbidden--;
	nvs_mutex_changed(&lock);
}

bool nvs_capture_wanted(void)
{
	return atomic_load(&wanted) > 0;
}

void nvs_capture_forked(void)
{
	nvs_mutex_forked(&lock);
	ending = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
	/*
	 * The parent's captures go on in the parent. What the list points to stays allocated: a
	 * thread that the child has not may have been in the middle of changing it.
	 */
	captures = NULL;
	forbidden = forbidding = 0;
	atomic_store(&nvs_captures, 0);
	atomic_store(&wanted, 0);
}
