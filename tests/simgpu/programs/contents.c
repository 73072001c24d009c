/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes pieces of device memory by nvshare's kernel and says what came out:
 *
 *     contents PTX [repeat BYTES]
 *
 * One line a piece: its size, blocks, what is in it, and the results put together. With `repeat`
 * one line instead, how long a hash of so many bytes takes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvshare/cuda/abi.h"
#include "nvshare/cuda/contents.h"

#define SIM_DECLARE(symbol, parameters) CUresult symbol parameters;
#define SIM_ENTRY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_QUERY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_EARLY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_MISSING(base, since, variant, symbol, parameters) SIM_DECLARE(symbol, parameters)
#include "nvshare/simgpu/csrc/cuda/entry/entries.inc"

#define CHECK(call)                                                             \
	do {                                                                    \
		CUresult result_ = (call);                                      \
		if (result_ != CUDA_SUCCESS) {                                  \
			fprintf(stderr, "%s: error %d\n", #call, (int)result_); \
			exit(1);                                                \
		}                                                               \
	} while (0)
#define MOST_BYTES (96u << 20)
#define REPEATS 200

static uint64_t state = 88172645463325252ull;

static uint64_t next_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static struct nvs_hash_key key;
static struct nvs_hash_result *results;
static CUfunction function;

static void make_key(void)
{
	for (size_t i = 0; i < sizeof(key.words) / sizeof(key.words[0]); i++)
		key.words[i] = (uint32_t)next_number();
	for (int lane = 0; lane < NVS_HASH_LANES; lane++) {
		key.unit[lane] = next_number() % NVS_HASH_PRIME;
		key.tree[0][lane] = next_number() % NVS_HASH_PRIME;
		for (int level = 1; level < NVS_HASH_LEVELS; level++) {
			uint64_t root = key.tree[level - 1][lane];

			key.tree[level][lane] = nvs_hash_step(root, root, 0);
		}
	}
}

static void launch(CUdeviceptr address, uint64_t bytes, uint64_t blocks)
{
	uint64_t units = bytes / NVS_UNIT_BYTES;
	void *parameters[] = { &key, &address, &units, &blocks, &results };

	CHECK(cuLaunchKernel(function, (unsigned int)blocks, 1, 1, NVS_UNIT_THREADS, 1, 1, 0, NULL,
			     parameters, NULL));
}

static void say(CUdeviceptr address, uint64_t bytes, uint64_t blocks, const char *what)
{
	uint64_t lanes[NVS_HASH_LANES] = { 0 }, any = 0;

	memset(results, 0xff, NVS_MOST_BLOCKS * sizeof(*results));
	launch(address, bytes, blocks);
	CHECK(cuCtxSynchronize());
	for (uint64_t block = 0; block < blocks; block++) {
		for (int lane = 0; lane < NVS_HASH_LANES; lane++)
			lanes[lane] = nvs_hash_step(lanes[lane], 3, results[block].lanes[lane]);
		any += results[block].any != 0;
	}
	printf("%llu %llu %s: %016llx %016llx %016llx %016llx %llu\n", (unsigned long long)bytes,
	       (unsigned long long)blocks, what, (unsigned long long)lanes[0],
	       (unsigned long long)lanes[1], (unsigned long long)lanes[2],
	       (unsigned long long)lanes[3], (unsigned long long)any);
}

static void repeat(CUdeviceptr address, uint64_t bytes)
{
	uint64_t units = bytes / NVS_UNIT_BYTES;
	uint64_t blocks = units < NVS_MOST_BLOCKS ? units : NVS_MOST_BLOCKS;
	struct timespec from, to;

	CHECK(cuMemsetD8_v2(address, 1, bytes));
	launch(address, bytes, blocks);
	CHECK(cuCtxSynchronize());
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < REPEATS; i++)
		launch(address, bytes, blocks);
	CHECK(cuCtxSynchronize());
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%.2f us\n",
	       (double)((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) / 1000 /
		       REPEATS);
}

static void say_all(CUdeviceptr address)
{
	static const uint64_t sizes[] = { 2u << 20, 6u << 20, 64u << 20, MOST_BYTES };
	uint64_t *contents = malloc(MOST_BYTES);

	if (!contents)
		exit(1);
	CHECK(cuMemsetD8_v2(address, 0, MOST_BYTES));
	say(address, 2u << 20, 32, "zeros");
	say(address, 64u << 20, 256, "zeros");
	for (size_t i = 0; i < MOST_BYTES / sizeof(*contents); i++)
		contents[i] = next_number();
	CHECK(cuMemcpyHtoD_v2(address, contents, MOST_BYTES));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		say(address, sizes[i], 256 < sizes[i] / 65536 ? 256 : sizes[i] / 65536, "random");
		say(address, sizes[i], 7, "random");
	}
	for (uint64_t place = 1; place < MOST_BYTES / 8; place = place * 3 + 1) {
		contents[place] ^= 1ull << place % 64;
		CHECK(cuMemcpyHtoD_v2(address + place * 8, &contents[place], 8));
		say(address, MOST_BYTES, 256, "a bit");
	}
	CHECK(cuMemsetD8_v2(address, 0, MOST_BYTES));
	CHECK(cuMemsetD8_v2(address + (2u << 20) - 1, 1, 1));
	say(address, 2u << 20, 32, "one byte");
	free(contents);
}

static void load(const char *path)
{
	static char text[1 << 20];
	FILE *file = fopen(path, "r");
	CUmodule module;

	if (!file || !fread(text, 1, sizeof(text) - 1, file)) {
		fprintf(stderr, "%s can't be read\n", path);
		exit(1);
	}
	fclose(file);
	CHECK(cuModuleLoadData(&module, text));
	CHECK(cuModuleGetFunction(&function, module, NVS_HASH_KERNEL));
}

int main(int argc, char **argv)
{
	uint64_t bytes = argc == 4 && !strcmp(argv[2], "repeat") ? strtoull(argv[3], NULL, 0) : 0;
	CUcontext context;
	CUdeviceptr address;

	if (argc != 2 && !bytes) {
		fprintf(stderr, "usage: contents PTX [repeat BYTES]\n");
		return 2;
	}
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemHostAlloc((void **)&results, NVS_MOST_BLOCKS * sizeof(*results),
			     CU_MEMHOSTALLOC_PORTABLE));
	CHECK(cuMemAlloc_v2(&address, bytes ? bytes : MOST_BYTES));
	load(argv[1]);
	make_key();
	if (bytes)
		repeat(address, bytes);
	else
		say_all(address);
	return 0;
}
