/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of captures that are going on.
 *
 * nvs_list_lock protects the list and the counts beside it; nvs_list_changed is signalled when they
 * change. nvs_ending is held for reading by calls that pass a closed gate because they are
 * captured, and for writing around what ends a capture, so that none of them is submitted after
 * all. Neither is held while the dynamic loader is called.
 */
#define _GNU_SOURCE
#include "capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "driver.h"
#include "marks.h"
#include "pass.h"

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

static pthread_mutex_t nvs_list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nvs_list_changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t nvs_ending = PTHREAD_RWLOCK_INITIALIZER;
static struct nvs_capture *nvs_list;
static int nvs_forbidden;  /* synchronizations that go on */
static int nvs_forbidding; /* drains that wait for the captures' end */

struct nvs_capture *nvs_capture_begin(CUstream stream)
{
	struct nvs_capture *capture = malloc(sizeof(*capture));
	int saved = errno;

	if (!capture)
		return NULL;
	*capture = (struct nvs_capture){ .stream = stream };
	if (stream == CU_STREAM_PER_THREAD)
		capture->owner = nvs_mark_take();
	if (!stream || stream == CU_STREAM_PER_THREAD ||
	    NVS_CALL(cuStreamGetCtx, stream, &capture->context) != CUDA_SUCCESS)
		NVS_CALL(cuCtxGetCurrent, &capture->context);
	pthread_mutex_lock(&nvs_list_lock);
	/* Among captures that already go on another one may begin: they may need it to end. */
	while (nvs_forbidden || (nvs_forbidding && !nvs_list))
		pthread_cond_wait(&nvs_list_changed, &nvs_list_lock);
	capture->next = nvs_list;
	nvs_list = capture;
	atomic_fetch_add(&nvs_captures, 1);
	pthread_mutex_unlock(&nvs_list_lock);
	/*
	 * Threads that look at events now may not know yet that they have to do it in relaxed mode.
	 */
	if (!atomic_exchange(&nvs_capture_ever, true))
		nvs_marks_wait_looks();
	errno = saved;
	return capture;
}

/* Takes out the first capture that matches; NULL in `one`, `context`, `owner` or `stream`: any. */
static bool nvs_list_remove(const struct nvs_capture *one, CUstream stream, CUcontext context,
			    const struct nvs_mark *owner)
{
	struct nvs_capture **link, *found;

	pthread_mutex_lock(&nvs_list_lock);
	for (link = &nvs_list; *link; link = &(*link)->next)
		if ((!one || *link == one) && (!stream || (*link)->stream == stream) &&
		    (!context || (*link)->context == context) &&
		    (!owner || (*link)->owner == owner))
			break;
	found = *link;
	if (found) {
		*link = found->next;
		atomic_fetch_sub(&nvs_captures, 1);
		pthread_cond_broadcast(&nvs_list_changed);
	}
	pthread_mutex_unlock(&nvs_list_lock);
	free(found);
	return found != NULL;
}

void nvs_capture_begun(struct nvs_capture *capture, CUresult result)
{
	int saved = errno;

	if (result != CUDA_SUCCESS)
		nvs_list_remove(capture, NULL, NULL, NULL);
	errno = saved;
}

static CUstreamCaptureStatus nvs_capture_status(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (NVS_CALL(cuStreamIsCapturing, stream, &status) != CUDA_SUCCESS)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return status;
}

void nvs_capture_ending(void)
{
	pthread_rwlock_wrlock(&nvs_ending);
}

void nvs_capture_ended(CUstream stream, bool destroyed)
{
	const struct nvs_mark *owner = stream == CU_STREAM_PER_THREAD ? nvs_mark_mine : NULL;
	bool over = destroyed || nvs_capture_status(stream) == CU_STREAM_CAPTURE_STATUS_NONE;
	int saved = errno;

	pthread_rwlock_unlock(&nvs_ending);
	if (over && stream)
		nvs_list_remove(NULL, stream, NULL, owner);
	errno = saved;
}

void nvs_capture_context_ended(CUcontext context)
{
	while (nvs_captures_going_on() && nvs_list_remove(NULL, NULL, context, NULL))
		;
}

void nvs_capture_thread_ended(const struct nvs_mark *mark)
{
	while (nvs_captures_going_on() && nvs_list_remove(NULL, NULL, NULL, mark))
		;
}

bool nvs_capture_pass(CUstream stream)
{
	bool capturing;

	pthread_rwlock_rdlock(&nvs_ending);
	capturing = nvs_capture_status(stream) != CU_STREAM_CAPTURE_STATUS_NONE;
	if (!capturing)
		pthread_rwlock_unlock(&nvs_ending);
	return capturing;
}

void nvs_capture_passed(void)
{
	pthread_rwlock_unlock(&nvs_ending);
}

void nvs_capture_forbid(void)
{
	pthread_mutex_lock(&nvs_list_lock);
	nvs_forbidding++;
	while (nvs_list)
		pthread_cond_wait(&nvs_list_changed, &nvs_list_lock);
	nvs_forbidding--;
	nvs_forbidden++;
	pthread_mutex_unlock(&nvs_list_lock);
}

bool nvs_capture_try_forbid(void)
{
	bool none;

	pthread_mutex_lock(&nvs_list_lock);
	none = !nvs_list;
	if (none)
		nvs_forbidden++;
	pthread_mutex_unlock(&nvs_list_lock);
	return none;
}

void nvs_capture_allow(void)
{
	pthread_mutex_lock(&nvs_list_lock);
	nvs_forbidden--;
	pthread_cond_broadcast(&nvs_list_changed);
	pthread_mutex_unlock(&nvs_list_lock);
}

void nvs_capture_forked(void)
{
	nvs_list_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	nvs_list_changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	nvs_ending = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
	nvs_list = NULL;
	nvs_forbidden = nvs_forbidding = 0;
	atomic_store(&nvs_captures, 0);
}
