/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that make contexts, work in them and end them all the time: contexts THREADS ROUNDS.
 *
 * Half of them retain and release the device's primary context, which ends whenever none of them
 * has it; the others create one of their own. What each has filled and copied back must be right.
 * Exit status 0 and "right" on stdout: it was. Anything else is told on stderr.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

#define BYTES 4096
#define MAX_THREADS 16

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream);

static int rounds;

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "contexts: %s gave %d\n", what, (int)result);
	exit(1);
}

#define CHECK(call) check(call, #call)

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
