/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free granules, pure: see granules.h. Owns nothing.
 */
#include "memory/swap/granules.h"

#define WORD_BITS 64u

static uint64_t bit_of(uint32_t granule)
{
	return 1ULL << granule % WORD_BITS;
}

static bool is_free(const struct nvs_granules *granules, uint32_t granule)
{
	return granules->words[granule / WORD_BITS] & bit_of(granule);
}

void nvs_granules_free(struct nvs_granules *granules, uint32_t first, uint32_t count)
{
	for (uint32_t granule = first; granule < first + count; granule++)
		granules->words[granule / WORD_BITS] |= bit_of(granule);
	granules->free += count;
}

void nvs_granules_withdraw(struct nvs_granules *granules, uint32_t first, uint32_t count)
{
	for (uint32_t granule = first; granule < first + count; granule++)
		granules->words[granule / WORD_BITS] &= ~bit_of(granule);
	granules->free -= count;
}

/* The next one that is free, `count` of all: none. */
static uint32_t next_free(const struct nvs_granules *granules, uint32_t from)
{
	while (from < granules->count && !is_free(granules, from))
		from += from % WORD_BITS || granules->words[from / WORD_BITS] ? 1 : WORD_BITS;
	return from < granules->count ? from : granules->count;
}

/* Where so many are free one behind the other; `count` of all: nowhere. */
static uint32_t find_run(const struct nvs_granules *granules, uint32_t count)
{
	uint32_t first = next_free(granules, 0), end;

	while (first < granules->count) {
		for (end = first; end < granules->count && end - first < count; end++)
			if (!is_free(granules, end))
				break;
		if (end - first == count)
			return first;
		first = next_free(granules, end);
	}
	return granules->count;
}

bool nvs_granules_take(struct nvs_granules *granules, uint32_t count, uint32_t *list)
{
	uint32_t next;

	if (granules->free < count)
		return false;
	next = find_run(granules, count);
	if (next == granules->count)
		next = 0;
	for (uint32_t i = 0; i < count; i++) {
		next = next_free(granules, next);
		list[i] = next;
		granules->words[next / WORD_BITS] &= ~bit_of(next);
	}
	granules->free -= count;
	return true;
}

uint32_t nvs_granules_run(const uint32_t *list, uint32_t count)
{
	uint32_t run = 1;

	while (run < count && list[run] == list[run - 1] + 1 && list[run] % NVS_PIECE_GRANULES)
		run++;
	return run;
}
