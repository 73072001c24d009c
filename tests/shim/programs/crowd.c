/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that submit as fast as they can, and now and then end and begin anew. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "abi.h"

#define MOST 64

CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);
CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream);

void crowd_begin(int threads);
void crowd_end(void);

static pthread_t crowd[MOST];
static int size;
static _Atomic bool over;

static void *life(void *number)
{
	unsigned int chance = (unsigned int)(uintptr_t)number * 2654435761u + 1;

	cuCtxSetCurrent((CUcontext)0x1000);
	for (int i = 0; i < 2000 && !atomic_load(&over); i++) {
		chance = chance * 1664525 + 1013904223;
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

static void *place(void *number)
{
	pthread_t thread;

	while (!atomic_load(&over))
		if (!pthread_create(&thread, NULL, life, number))
			pthread_join(thread, NULL);
	return NULL;
}

void crowd_begin(int threads)
{
	size = threads;
	for (int i = 0; i < size; i++)
		pthread_create(&crowd[i], NULL, place, (void *)(uintptr_t)i);
}

void crowd_end(void)
{
	atomic_store(&over, true);
	for (int i = 0; i < size; i++)
		pthread_join(crowd[i], NULL);
}
