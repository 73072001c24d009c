/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that make contexts, work in them and end them all the time: contexts THREADS ROUNDS.
 *
 * Half of them retain and release the device's primary context, which ends whenever none of them
 * has it; the others create one of their own. What each has filled and copied back must be right.
 * Exit status 0 and "right" on stdout: it was. Anything else is told on stderr.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

#define BYTES 4096
#define MAX_THREADS 16

static int rounds;

/* In the current context. */
static void work(unsigned char value)
{
	unsigned char filled[BYTES], expected[BYTES];
	CUdeviceptr address;
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&address, BYTES));
	CHECK(cuMemsetD8Async(address, value, BYTES, stream));
	CHECK(cuMemcpyDtoHAsync_v2(filled, address, BYTES, stream));
	CHECK(cuStreamSynchronize(stream));
	memset(expected, value, BYTES);
	if (memcmp(filled, expected, BYTES)) {
		fprintf(stderr, "contexts: what was filled with %d is not\n", value);
		exit(1);
	}
	CHECK(cuMemFree_v2(address));
	CHECK(cuStreamDestroy_v2(stream));
}

static void *work_in_primary(void *argument)
{
	CUcontext context;

	for (int round = 0; round < rounds; round++) {
		CHECK(cuDevicePrimaryCtxRetain(&context, 0));
		CHECK(cuCtxSetCurrent(context));
		work((unsigned char)round);
		CHECK(cuCtxSetCurrent(NULL));
		CHECK(cuDevicePrimaryCtxRelease_v2(0));
	}
	return argument;
}

static void *work_in_own(void *argument)
{
	CUcontext context;

	for (int round = 0; round < rounds; round++) {
		CHECK(cuCtxCreate_v2(&context, 0, 0));
		work((unsigned char)round);
		CHECK(cuCtxDestroy_v2(context));
	}
	return argument;
}

int main(int argc, char **argv)
{
	const int count = argc == 3 ? atoi(argv[1]) : 0;
	pthread_t threads[MAX_THREADS];

	if (count < 1 || count > MAX_THREADS) {
		fprintf(stderr, "usage: contexts THREADS ROUNDS, with 1 to %d threads\n",
			MAX_THREADS);
		return 2;
	}
	rounds = atoi(argv[2]);
	CHECK(cuInit(0));
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, i % 2 ? work_in_own : work_in_primary, NULL);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	puts("right");
	return 0;
}
