/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuda/contents.h explains; the hash one block after another. Owns nothing; the memory is
 * pinned meanwhile.
 */
#include "kernel/contents.h"

#include <string.h>

#include "cuda/contents.h"
#include "memory/range.h"

#define UNIT_WORDS (NVS_UNIT_BYTES / sizeof(uint32_t))
#define LINE_WORDS (4 * NVS_UNIT_THREADS) /* a vector of each thread */

struct call {
	struct nvs_hash_key key;
	uint64_t address, units, blocks, results;
};

/* Of all threads of a block. */
struct lanes {
	uint64_t of[NVS_HASH_LANES][NVS_UNIT_THREADS];
};

/* Four words, or two numbers that are each made of two of them, the first one below. */
typedef uint32_t words __attribute__((vector_size(16), aligned(4)));
typedef uint64_t pairs __attribute__((vector_size(16)));

/* The products of what two words and two words of the key are. */
static pairs products(const uint32_t *vector, const uint32_t *key)
{
	pairs sums = (pairs)(*(const words *)vector + *(const words *)key);

	return (sums & 0xffffffff) * (sums >> 32);
}

/* NH of what one thread has of a unit. */
static void hash_vectors(const struct nvs_hash_key *key, const uint32_t *first, unsigned int stride,
			 uint64_t *sums)
{
	pairs lanes[NVS_HASH_LANES] = { 0 };

	for (unsigned int vector = 0; vector < NVS_HASH_VECTORS; vector++)
		for (unsigned int lane = 0; lane < NVS_HASH_LANES; lane++)
			lanes[lane] +=
				products(first + vector * stride, key->words + 4 * (vector + lane));
	for (unsigned int lane = 0; lane < NVS_HASH_LANES; lane++)
		sums[lane] = lanes[lane][0] + lanes[lane][1];
}

static bool any(const uint32_t *unit)
{
	uint32_t bits = 0;

	for (unsigned int i = 0; i < UNIT_WORDS; i++)
		bits |= unit[i];
	return bits != 0;
}

static void put_threads_together(const struct nvs_hash_key *key, struct lanes *block)
{
	for (unsigned int level = 0; level < NVS_HASH_LEVELS; level++)
		for (unsigned int lane = 0; lane < NVS_HASH_LANES; lane++)
			for (unsigned int thread = 0; thread < NVS_UNIT_THREADS;
			     thread += 2u << level) {
				uint64_t *first = &block->of[lane][thread];

				*first = nvs_hash_step(*first, key->tree[level][lane],
						       first[1u << level]);
			}
}

static void add_unit(const struct nvs_hash_key *key, const uint32_t *unit, struct lanes *hash)
{
	static const uint32_t zeros[4];
	uint64_t sums[NVS_HASH_LANES];

	if (!unit)
		hash_vectors(key, zeros, 0, sums);
	for (unsigned int thread = 0; thread < NVS_UNIT_THREADS; thread++) {
		if (unit)
			hash_vectors(key, unit + thread * 4, LINE_WORDS, sums);
		for (unsigned int lane = 0; lane < NVS_HASH_LANES; lane++)
			hash->of[lane][thread] =
				nvs_hash_step(hash->of[lane][thread], key->unit[lane], sums[lane]);
	}
}

static struct nvs_hash_result hash_block(const struct call *call, uint64_t block)
{
	struct nvs_hash_result result = { 0 };
	struct lanes hash = { 0 };

	for (uint64_t unit = block; unit < call->units; unit += call->blocks) {
		uint64_t address = call->address + unit * NVS_UNIT_BYTES;
		bool written = sim_next_data(address, NVS_UNIT_BYTES) < address + NVS_UNIT_BYTES;
		/* What nobody has written is not touched: it takes no memory afterwards, either. */
		const uint32_t *at = written ? sim_reach(address) : NULL;

		result.any |= written && any(at);
		add_unit(&call->key, at, &hash);
	}
	put_threads_together(&call->key, &hash);
	for (unsigned int lane = 0; lane < NVS_HASH_LANES; lane++)
		result.lanes[lane] = hash.of[lane][0];
	return result;
}

static CUresult hash_all(struct CUctx_st *context, const struct call *call)
{
	uint64_t bytes = call->blocks * sizeof(struct nvs_hash_result);
	struct nvs_hash_result *results = sim_reach(call->results);
	CUresult result = sim_pin(context, call->results, bytes, SIM_WRITE, false, false);

	if (result != CUDA_SUCCESS)
		return result;
	for (uint64_t block = 0; block < call->blocks; block++)
		results[block] = hash_block(call, block);
	sim_unpin(context, call->results, bytes);
	return CUDA_SUCCESS;
}

CUresult sim_hash_contents(struct CUctx_st *context, const unsigned char *parameters)
{
	struct call call;
	CUresult result;

	memcpy(&call, parameters, sizeof(call));
	if (call.address % 16 != 0 || call.results % 8 != 0)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	if (call.blocks > NVS_MOST_BLOCKS || call.units > UINT64_MAX / NVS_UNIT_BYTES)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	result =
		sim_pin(context, call.address, call.units * NVS_UNIT_BYTES, SIM_READ, false, false);
	if (result != CUDA_SUCCESS)
		return result;
	result = hash_all(context, &call);
	sim_unpin(context, call.address, call.units * NVS_UNIT_BYTES);
	return result;
}

CUresult sim_clear_contents(struct CUctx_st *context, const unsigned char *parameters)
{
	struct {
		uint64_t address, units, blocks;
	} call;
	uint64_t bytes;
	CUresult result;

	memcpy(&call, parameters, sizeof(call));
	if (call.address % 16 != 0)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	if (call.units > UINT64_MAX / NVS_UNIT_BYTES)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	bytes = call.units * NVS_UNIT_BYTES;
	result = sim_pin(context, call.address, bytes, SIM_WRITE, false, false);
	if (result != CUDA_SUCCESS)
		return result;
	if (sim_next_data(call.address, bytes) < call.address + bytes)
		sim_discard(call.address, bytes);
	sim_unpin(context, call.address, bytes);
	return CUDA_SUCCESS;
}
