/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nvshare does with the contents of device memory where they are: a hash of them, and making
 * them zero. Memory is units of 64 KiB; a block of 256 threads takes every `blocks`-th one.
 *
 * The hash. Equal contents have equal hashes, and two different ones have the same with a
 * probability of about 2^-110 over the random key. A thread's part of a unit, 16 vectors of 4 words
 * that are 4 KiB apart, is hashed by NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast
 * and Secure Message Authentication", 1999: the sum of products of two 32-bit words, to each of
 * which a word of the key is added), in four lanes, each with the key from one vector on (the
 * Toeplitz construction, there). What a thread has of its units, then the threads of a block, and
 * then the blocks are put together by a polynomial modulo 2^61 - 1.
 */
#ifndef NVS_CUDA_CONTENTS_H
#define NVS_CUDA_CONTENTS_H

#include <stdint.h>

/* Their parameters: the key; for both the address, how many units, how many blocks; the results. */
#define NVS_HASH_KERNEL "nvs_hash_contents"
#define NVS_CLEAR_KERNEL "nvs_clear_contents"

#define NVS_UNIT_BYTES 65536u
#define NVS_UNIT_THREADS 256
#define NVS_MOST_BLOCKS 256u
#define NVS_HASH_LANES 4
#define NVS_HASH_VECTORS 16
#define NVS_HASH_LEVELS 8 /* NVS_UNIT_THREADS is 2 to this power */
#define NVS_HASH_PRIME ((1ull << 61) - 1)

struct nvs_hash_key {
	uint32_t words[4 * (NVS_HASH_VECTORS + NVS_HASH_LANES - 1)];
	/* Below the prime. */
	uint64_t unit[NVS_HASH_LANES]; /* from one unit to the next */
	uint64_t tree[NVS_HASH_LEVELS]
		     [NVS_HASH_LANES]; /* of one thread: its 1st, 2nd, 4th power ... */
};

/* Of one block. */
struct nvs_hash_result {
	uint64_t lanes[NVS_HASH_LANES];
	uint64_t any; /* not 0: so is a byte of its units */
};

/* x * y + z modulo the prime; x and y are below 2^62. */
static inline uint64_t nvs_hash_step(uint64_t x, uint64_t y, uint64_t z)
{
	unsigned __int128 product = (unsigned __int128)x * y + z;
	uint64_t sum = ((uint64_t)product & NVS_HASH_PRIME) + (uint64_t)(product >> 61);

	sum = (sum & NVS_HASH_PRIME) + (sum >> 61);
	return sum >= NVS_HASH_PRIME ? sum - NVS_HASH_PRIME : sum;
}

#endif
