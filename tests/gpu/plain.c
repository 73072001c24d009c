/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C program on the CUDA driver: it sets the bytes of one piece of its memory after the other.
 * Command line and orders: orders.h.
 */
#define _GNU_SOURCE
#include "orders.h"
#include "program.h"

#define PIECE ((size_t)1 << 20)

static CUdeviceptr memory_at;
static size_t pieces;
static unsigned char done;

static void prepare(size_t memory)
{
	CUcontext context;
	CUdevice device;

	pieces = memory / PIECE;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc_v2(&memory_at, pieces * PIECE));
	CHECK(cuMemsetD8Async(memory_at, 7, pieces * PIECE, NULL));
	run_steps(2);
}

static void run_steps(long steps)
{
	for (long i = 0; i < steps; i++, done++)
		CHECK(cuMemsetD8Async(memory_at + done % pieces * PIECE, (unsigned char)(done * 7),
				      PIECE, NULL));
	CHECK(cuStreamSynchronize(NULL));
}

static uint64_t digest(void)
{
	static char piece[PIECE];
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < pieces; i++) {
		CHECK(cuMemcpyDtoHAsync_v2(piece, memory_at + i * PIECE, PIECE, NULL));
		CHECK(cuStreamSynchronize(NULL));
		hash = hash_words(hash, piece, PIECE);
	}
	return hash;
}

int main(int count, char **words)
{
	return program(count, words);
}
