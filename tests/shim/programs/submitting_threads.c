/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that submit as fast as they can, and now and then end and begin anew.
 *
 * Before a submission they write to memory that is in no cache of theirs. A processor keeps stores
 * back until those before them are done, so the mark that a submission stores first is seen late by
 * the other processors, while it sees the gate early: what the gate's barrier is there for.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "abi.h"

#define MOST 64
#define COLD_BYTES (8u << 20)
#define COLD_STORES 40 /* fewer than a processor can keep back */

CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);
CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream);

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

static void *submit_for_a_while(void *number)
{
	unsigned int chance = (unsigned int)(uintptr_t)number * 2654435761u + 1;

	cuCtxSetCurrent((CUcontext)0x1000);
	for (int i = 0; i < 2000 && !atomic_load(&over); i++) {
		for (int store = 0; store < COLD_STORES; store++) {
			chance = next(chance);
			*(volatile char *)&cold[chance % COLD_BYTES] = 1;
		}
		switch (chance >> 30) {
		case 0:
			cuMemsetD8Async(0, 0, 0, (CUstream)0x110);
			break;
		case 1:
			cuGraphLaunch_ptsz(NULL, NULL);
			break;
		default:
			cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, (CUstream)0x120, NULL, NULL);
		}
	}
	return number;
}

static void *keep_submitting(void *number)
{
	pthread_t thread;

	while (!atomic_load(&over))
		if (!pthread_create(&thread, NULL, submit_for_a_while, number))
			pthread_join(thread, NULL);
	return NULL;
}

bool threads_start(int count)
{
	cold = malloc(COLD_BYTES);
	if (!cold)
		return false;
	for (started = 0; started < count && started < MOST; started++)
		if (pthread_create(&threads[started], NULL, keep_submitting,
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
