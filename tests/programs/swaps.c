/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU program whose threads allocate, write, read and free memory at random, and know what must be
 * in it: swaps THREADS STEPS SEED. Says "right" when every byte that they read was.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "program.h"

#define MAX_THREADS 16
#define BLOCKS 6
#define WINDOW 4096

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);

/* All bytes are `value`, but for a window of which all are `other`. */
struct block {
	CUdeviceptr address;
	size_t bytes, window;
	unsigned char value, other;
};

struct worker {
	pthread_t id;
	unsigned int seed;
	int steps;
	CUcontext context;
	CUstream stream;
	struct block blocks[BLOCKS];
	unsigned char buffer[WINDOW];
};

static size_t below(struct worker *worker, size_t end)
{
	return ((size_t)rand_r(&worker->seed) << 16 ^ (size_t)rand_r(&worker->seed)) % end;
}

/* Most are small, some are of several chunks. */
static size_t some_size(struct worker *worker)
{
	static const size_t most[] = { 64 << 10, 1 << 20, 8 << 20, 100 << 20 };

	return WINDOW + below(worker, most[below(worker, 16) ? below(worker, 3) : 3]);
}

static void write_window(struct worker *worker, struct block *block)
{
	block->window = below(worker, block->bytes - WINDOW + 1);
	block->other = (unsigned char)below(worker, 256);
	memset(worker->buffer, block->other, WINDOW);
	CHECK(cuMemcpyHtoDAsync_v2(block->address + block->window, worker->buffer, WINDOW,
				   worker->stream));
	CHECK(cuStreamSynchronize(worker->stream));
}

static void write_all(struct worker *worker, struct block *block)
{
	block->value = (unsigned char)below(worker, 256);
	CHECK(cuMemsetD8Async(block->address, block->value, block->bytes, worker->stream));
	write_window(worker, block);
}

static void read_at(struct worker *worker, const struct block *block, size_t begin)
{
	CHECK(cuMemcpyDtoHAsync_v2(worker->buffer, block->address + begin, WINDOW, worker->stream));
	CHECK(cuStreamSynchronize(worker->stream));
	for (size_t i = 0; i < WINDOW; i++) {
		size_t place = begin + i;
		int inside = place >= block->window && place - block->window < WINDOW;
		unsigned char expected = inside ? block->other : block->value;

		if (worker->buffer[i] == expected)
			continue;
		fprintf(stderr, "swaps: byte %zu of %zu is %d, not %d\n", place, block->bytes,
			worker->buffer[i], expected);
		exit(1);
	}
}

static void read_some(struct worker *worker, const struct block *block)
{
	read_at(worker, block, below(worker, block->bytes - WINDOW + 1));
	read_at(worker, block, block->window);
	read_at(worker, block, block->bytes - WINDOW);
}

static void begin_block(struct worker *worker, struct block *block)
{
	size_t bytes = some_size(worker);
	CUresult result = cuMemAlloc_v2(&block->address, bytes);

	/* It may be refused; then it is tried again some time. */
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return;
	check(result, "cuMemAlloc_v2");
	block->bytes = bytes;
	if (below(worker, 4))
		write_all(worker, block);
	else
		block->value = block->other = 0, block->window = 0,
		CHECK(cuMemsetD8Async(block->address, 0, bytes, worker->stream));
}

static void step(struct worker *worker)
{
	struct block *block = &worker->blocks[below(worker, BLOCKS)];

	if (!block->bytes) {
		begin_block(worker, block);
		return;
	}
	switch (below(worker, 6)) {
	case 0:
		read_some(worker, block);
		CHECK(cuMemFree_v2(block->address));
		block->bytes = 0;
		break;
	case 1:
		CHECK(cuMemFree_v2(block->address));
		block->bytes = 0;
		break;
	case 2:
		write_all(worker, block);
		break;
	case 3:
		write_window(worker, block);
		memset(worker->buffer, 0, WINDOW);
		read_at(worker, block, block->window);
		/* The last window's contents are known no more. */
		write_all(worker, block);
		break;
	default:
		read_some(worker, block);
	}
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	CHECK(cuCtxSetCurrent(worker->context));
	CHECK(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < worker->steps; i++)
		step(worker);
	for (int i = 0; i < BLOCKS; i++)
		if (worker->blocks[i].bytes)
			read_some(worker, &worker->blocks[i]);
	CHECK(cuStreamDestroy_v2(worker->stream));
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[MAX_THREADS];
	int threads = argc == 4 ? atoi(argv[1]) : 0;
	CUcontext context;
	CUdevice device;

	if (threads < 1 || threads > MAX_THREADS) {
		fprintf(stderr, "usage: swaps THREADS STEPS SEED, with 1 to %d threads\n",
			MAX_THREADS);
		return 2;
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .seed = (unsigned int)(atoi(argv[3]) * 100 + i),
					      .steps = atoi(argv[2]),
					      .context = context };
		pthread_create(&workers[i].id, NULL, work, &workers[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].id, NULL);
	puts("right");
	return 0;
}
