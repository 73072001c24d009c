/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU program that rests: rests BLOCKS SEED. For each line on stdin it looks at all of its
 * memory, changes some, and says "right" when every byte was; in between it is idle.
 */
#define _GNU_SOURCE
#include <string.h>

#include "program.h"

#define MAX_BLOCKS 16
#define BUFFER_BYTES (1 << 20)
#define MOST_BYTES (20 << 20)

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);

/* Of each MiB all words are the seed and the MiB's number. */
struct block {
	CUdeviceptr address;
	size_t bytes;
	uint64_t seed;
};

static CUstream stream;
static uint64_t buffer[BUFFER_BYTES / sizeof(uint64_t)];
static unsigned int chance;

static void look(const struct block *block)
{
	for (size_t begin = 0; begin < block->bytes; begin += BUFFER_BYTES) {
		CHECK(cuMemcpyDtoHAsync_v2(buffer, block->address + begin, BUFFER_BYTES, stream));
		CHECK(cuStreamSynchronize(stream));
		for (size_t i = 0; i < BUFFER_BYTES / sizeof(*buffer); i++)
			if (buffer[i] != block->seed + begin) {
				fprintf(stderr, "rests: word %zu of MiB %zu is wrong\n", i,
					begin / BUFFER_BYTES);
				exit(1);
			}
	}
}

static void write_all(struct block *block)
{
	block->seed = (uint64_t)rand_r(&chance) << 32;
	for (size_t begin = 0; begin < block->bytes; begin += BUFFER_BYTES) {
		for (size_t i = 0; i < BUFFER_BYTES / sizeof(*buffer); i++)
			buffer[i] = block->seed + begin;
		CHECK(cuMemcpyHtoDAsync_v2(block->address + begin, buffer, BUFFER_BYTES, stream));
		CHECK(cuStreamSynchronize(stream));
	}
}

static void make(struct block *block)
{
	block->bytes = (1 + (size_t)rand_r(&chance) % (MOST_BYTES / BUFFER_BYTES)) * BUFFER_BYTES;
	CHECK(cuMemAlloc_v2(&block->address, block->bytes));
	write_all(block);
}

static void change(struct block *block)
{
	if (rand_r(&chance) % 2) {
		write_all(block);
		return;
	}
	CHECK(cuMemFree_v2(block->address));
	make(block);
}

int main(int argc, char **argv)
{
	static struct block blocks[MAX_BLOCKS];
	int count = argc == 3 ? atoi(argv[1]) : 0;
	CUcontext context;
	CUdevice device;
	char line[16];

	if (count < 1 || count > MAX_BLOCKS) {
		fprintf(stderr, "usage: rests BLOCKS SEED, with 1 to %d blocks\n", MAX_BLOCKS);
		return 2;
	}
	chance = (unsigned int)atoi(argv[2]);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < count; i++)
		make(&blocks[i]);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < count; i++)
			look(&blocks[i]);
		change(&blocks[rand_r(&chance) % (unsigned int)count]);
		puts("right");
		fflush(stdout);
	}
	return 0;
}
