/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that makes one call of the driver again and again, and is cancelled: in the call, in a
 * wait of the library's, or, if it was told to wait for that, before the first.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"

CUresult cuCtxSetCurrent(CUcontext context);

typedef CUresult (*driver_function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t,
				    size_t, size_t, size_t, size_t);

struct call {
	pthread_t thread;
	driver_function function;
	size_t words[12];
	int times;
	_Atomic int number; /* of the thread */
	_Atomic bool may_begin;
};

static void *make_calls(void *argument)
{
	struct call *call = argument;
	const size_t *words = call->words;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	cuCtxSetCurrent((CUcontext)0x1000);
	atomic_store(&call->number, (int)syscall(SYS_gettid));
	while (!atomic_load(&call->may_begin))
		sched_yield();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	for (int i = 0; i < call->times; i++)
		call->function(words[0], words[1], words[2], words[3], words[4], words[5], words[6],
			       words[7], words[8], words[9], words[10], words[11]);
	pthread_testcancel();
	return NULL;
}

struct call *cancelled_start(driver_function function, const size_t *words, int times, bool begin)
{
	struct call *call = calloc(1, sizeof(*call));

	call->function = function;
	call->times = times;
	for (int i = 0; i < 12; i++)
		call->words[i] = words[i];
	atomic_store(&call->may_begin, begin);
	pthread_create(&call->thread, NULL, make_calls, call);
	return call;
}

/* The thread's number, as soon as it has one. */
int cancelled_number(struct call *call)
{
	return atomic_load(&call->number);
}

void cancelled_cancel(struct call *call)
{
	pthread_cancel(call->thread);
	atomic_store(&call->may_begin, true);
}

/* Waits for the thread's end: whether it was cancelled. */
bool cancelled_join(struct call *call)
{
	void *result;

	pthread_join(call->thread, &result);
	free(call);
	return result == PTHREAD_CANCELED;
}
