/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of chunks. No state beside the record that is passed in, which is its mover's; no lock.
 * The driver's own functions are called, not the hooks: nothing here waits at the gate.
 */
#define _GNU_SOURCE
#include "memory/swap/contents.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver/driver.h"
#include "memory/swap/chunk.h"

extern const char nvs_contents_ptx[] __attribute__((visibility("hidden")));

_Static_assert(NVS_GRANULE_BYTES % NVS_UNIT_BYTES == 0, "a chunk is whole units");

/* Bits beyond those of a factor would make no other one. */
static uint64_t below_prime(uint64_t random)
{
	return (random & NVS_HASH_PRIME) % NVS_HASH_PRIME;
}

static bool fill(void *memory, size_t bytes)
{
	return syscall(SYS_getrandom, memory, bytes, 0) == (long)bytes;
}

/* False: the system has no random numbers. */
static bool make_key(struct nvs_contents *contents)
{
	struct nvs_hash_key *key = &contents->key;

	if (!fill(key, sizeof(*key)) || !fill(contents->block, sizeof(contents->block)))
		return false;
	for (int lane = 0; lane < NVS_HASH_LANES; lane++) {
		contents->block[lane] = below_prime(contents->block[lane]);
		key->unit[lane] = below_prime(key->unit[lane]);
		key->tree[0][lane] = below_prime(key->tree[0][lane]);
		for (int level = 1; level < NVS_HASH_LEVELS; level++) {
			uint64_t root = key->tree[level - 1][lane];

			key->tree[level][lane] = nvs_hash_step(root, root, 0);
		}
	}
	return true;
}

static bool make_kernels(struct nvs_contents *contents)
{
	return NVS_CALL(cuModuleLoadData, &contents->module, nvs_contents_ptx) == CUDA_SUCCESS &&
	       NVS_CALL(cuModuleGetFunction, &contents->hash, contents->module, NVS_HASH_KERNEL) ==
		       CUDA_SUCCESS &&
	       NVS_CALL(cuModuleGetFunction, &contents->clear, contents->module,
			NVS_CLEAR_KERNEL) == CUDA_SUCCESS;
}

static bool make_results(struct nvs_contents *contents)
{
	const size_t bytes = NVS_CONTENTS * NVS_MOST_BLOCKS * sizeof(*contents->results);
	void *results;

	for (int i = 0; i < NVS_CONTENTS; i++)
		if (NVS_CALL(cuStreamCreate, &contents->streams[i], CU_STREAM_NON_BLOCKING) !=
		    CUDA_SUCCESS)
			return false;
	if (NVS_CALL(cuMemHostAlloc, &results, bytes, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
		return false;
	contents->results = results;
	return true;
}

static void end(const struct nvs_contents *contents)
{
	if (contents->results)
		NVS_CALL(cuMemFreeHost, contents->results);
	for (int i = 0; i < NVS_CONTENTS; i++)
		if (contents->streams[i])
			NVS_CALL(cuStreamDestroy_v2, contents->streams[i]);
	if (contents->module)
		NVS_CALL(cuModuleUnload, contents->module);
}

void nvs_contents_forget(struct nvs_contents *contents)
{
	contents->made = false;
	contents->module = NULL;
	contents->hash = contents->clear = NULL;
	memset(contents->streams, 0, sizeof(contents->streams));
	contents->results = NULL;
}

/* False: there are no kernels. */
static bool make(struct nvs_contents *contents)
{
	if (!contents->made) {
		if (!contents->keyed)
			contents->keyed = make_key(contents);
		if (!contents->keyed || !make_kernels(contents) || !make_results(contents)) {
			end(contents);
			nvs_contents_forget(contents);
		}
		contents->made = true;
	}
	return contents->module != NULL;
}

static uint64_t units_of(const struct nvs_chunk *chunk)
{
	return chunk->bytes / NVS_UNIT_BYTES;
}

static uint64_t blocks_of(const struct nvs_chunk *chunk)
{
	return units_of(chunk) < NVS_MOST_BLOCKS ? units_of(chunk) : NVS_MOST_BLOCKS;
}

static struct nvs_hash_result *results_of(const struct nvs_contents *contents, unsigned int slot)
{
	return contents->results + (size_t)slot * NVS_MOST_BLOCKS;
}

static CUresult launch(CUfunction kernel, const struct nvs_chunk *chunk, CUstream stream,
		       void **parameters)
{
	return NVS_CALL(cuLaunchKernel, kernel, (unsigned int)blocks_of(chunk), 1, 1,
			NVS_UNIT_THREADS, 1, 1, 0, stream, parameters, NULL);
}

CUresult nvs_contents_hash(struct nvs_contents *contents, struct nvs_chunk *chunk,
			   unsigned int slot, CUevent event)
{
	uint64_t units = units_of(chunk), blocks = blocks_of(chunk);
	CUdeviceptr address = nvs_chunk_address(chunk);
	struct nvs_hash_result *results;
	void *parameters[] = { &contents->key, &address, &units, &blocks, &results };
	CUstream stream;
	CUresult result;

	if (!address || !make(contents))
		return CUDA_ERROR_NOT_SUPPORTED;
	results = results_of(contents, slot);
	stream = contents->streams[slot];
	result = launch(contents->hash, chunk, stream, parameters);
	if (result == CUDA_SUCCESS)
		result = NVS_CALL(cuEventRecord, event, stream);
	if (result != CUDA_SUCCESS)
		NVS_CALL(cuStreamSynchronize, stream);
	return result;
}

void nvs_contents_read(const struct nvs_contents *contents, const struct nvs_chunk *chunk,
		       unsigned int slot, struct nvs_hash *hash)
{
	const struct nvs_hash_result *results = results_of(contents, slot);

	*hash = (struct nvs_hash){ .zeros = true };
	for (uint64_t block = 0; block < blocks_of(chunk); block++) {
		for (int lane = 0; lane < NVS_HASH_LANES; lane++)
			hash->lanes[lane] = nvs_hash_step(hash->lanes[lane], contents->block[lane],
							  results[block].lanes[lane]);
		hash->zeros &= !results[block].any;
	}
}

/* By a kernel of ours, which whoever records the device's work knows; else by the driver's. */
CUresult nvs_contents_clear(struct nvs_contents *contents, struct nvs_chunk *chunk, CUstream stream)
{
	uint64_t units = units_of(chunk), blocks = blocks_of(chunk);
	CUdeviceptr address = nvs_chunk_address(chunk);
	void *parameters[] = { &address, &units, &blocks };

	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	if (make(contents))
		return launch(contents->clear, chunk, stream, parameters);
	return NVS_CALL(cuMemsetD8Async, address, 0, chunk->bytes, stream);
}
