/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums, pure: see sum.h. Owns nothing.
 *
 * Products of 64 bits, folded, in four lanes that do not wait for each other: memory is read about
 * as fast as it can be.
 */
#include "memory/away/sum.h"

#include <string.h>

#define LANES 4
#define STEP (2 * LANES) /* words */

__extension__ typedef unsigned __int128 product;

static uint64_t fold(uint64_t one, uint64_t other)
{
	product both = (product)one * other;

	return (uint64_t)both ^ (uint64_t)(both >> 64);
}

uint64_t nvs_sum(const uint64_t key[NVS_SUM_KEYS], uint64_t number, const void *memory,
		 uint64_t bytes)
{
	const char *place = memory, *end = place + bytes;
	uint64_t lanes[LANES], words[STEP], sum = fold(number ^ key[0], key[1]);

	for (int i = 0; i < LANES; i++)
		lanes[i] = sum;
	for (; place < end; place += sizeof(words)) {
		memcpy(words, place, sizeof(words));
		for (int i = 0; i < LANES; i++)
			lanes[i] = fold(words[2 * i] ^ key[i],
					words[2 * i + 1] ^ lanes[i] ^ key[LANES + i]);
	}
	for (int i = 0; i < LANES; i++)
		sum = fold(sum ^ key[i], lanes[i] ^ key[LANES + i]);
	return sum;
}
