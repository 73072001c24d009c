/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that call the driver, with pauses, and that end and begin anew. Each call follows stores
 * to memory that is in no cache of theirs, as in submitting_threads.c.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "abi.h"

#define MOST 64
#define COLD_BYTES (8u << 20)
#define COLD_STORES 40

CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetFlags(unsigned int *flags);
CUresult cuEventQuery(CUevent event);
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer);
CUresult cuStreamSynchronize(CUstream stream);

bool threads_start(int count);
void threads_stop(void);

static pthread_t threads[MOST];
static int started;
static char *cold;
static _Atomic bool over;

static unsigned int next(unsigned int chance)
{
	return chance * 1664525 + 1013904223;
}

static void call_one(unsigned int chance)
{
	unsigned int flags;
	void *pointer;

	switch (chance >> 29) {
	case 0:
		cuCtxSetCurrent((CUcontext)0x1000);
		break;
	case 1:
		cuMemHostAlloc(&pointer, 1, 0);
		break;
	case 2:
		cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_IS_MANAGED, 0x10000);
		break;
	case 3:
		cuStreamSynchronize(NULL);
		break;
	case 4:
	case 5:
		cuEventQuery(NULL);
		break;
	default:
		cuCtxGetFlags(&flags);
	}
}

static void *call_for_a_while(void *number)
{
	unsigned int chance = (unsigned int)(uintptr_t)number * 2654435761u + 1;

	for (int i = 0; i < 2000 && !atomic_load(&over); i++) {
		for (int store = 0; store < COLD_STORES; store++) {
			chance = next(chance);
			*(volatile char *)&cold[chance % COLD_BYTES] = 1;
		}
		call_one(chance);
		if (chance >> 28 == 0)
			nanosleep(&(struct timespec){ .tv_nsec = chance >> 10 }, NULL);
	}
	return number;
}

static void *keep_calling(void *number)
{
	pthread_t thread;

	while (!atomic_load(&over))
		if (!pthread_create(&thread, NULL, call_for_a_while, number))
			pthread_join(thread, NULL);
	return NULL;
}

bool threads_start(int count)
{
	cold = malloc(COLD_BYTES);
	if (!cold)
		return false;
	for (started = 0; started < count && started < MOST; started++)
		if (pthread_create(&threads[started], NULL, keep_calling,
				   (void *)(uintptr_t)started))
			return false;
	return true;
}

void threads_stop(void)
{
	atomic_store(&over, true);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}
