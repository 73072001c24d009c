/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the table of addresses: leaves of 128 GiB each, made when they are first needed and kept. No
 * lock: the caller's protects it.
 */
#include "memory/swap/addresses.h"

#include <stdlib.h>
#include <string.h>

#define GRANULE_BITS 21
#define LEAF_BITS 16
#define ADDRESS_BITS 52
#define LEAVES (1u << (ADDRESS_BITS - GRANULE_BITS - LEAF_BITS))
#define LEAF_GRANULES (1u << LEAF_BITS)

static void **leaves[LEAVES];

static bool make_leaves(uint64_t first, uint64_t last)
{
	for (uint64_t leaf = first >> LEAF_BITS; leaf <= last >> LEAF_BITS; leaf++) {
		if (!leaves[leaf])
			leaves[leaf] = calloc(LEAF_GRANULES, sizeof(void *));
		if (!leaves[leaf])
			return false;
	}
	return true;
}

static void fill(uint64_t first, uint64_t last, void *owner)
{
	for (uint64_t granule = first; granule <= last; granule++)
		leaves[granule >> LEAF_BITS][granule % LEAF_GRANULES] = owner;
}

bool nvs_addresses_set(uint64_t start, uint64_t bytes, void *owner)
{
	uint64_t first = start >> GRANULE_BITS, last = (start + bytes - 1) >> GRANULE_BITS;

	if (start + bytes < start || (start + bytes - 1) >> ADDRESS_BITS ||
	    !make_leaves(first, last))
		return false;
	fill(first, last, owner);
	return true;
}

void nvs_addresses_clear(uint64_t start, uint64_t bytes)
{
	fill(start >> GRANULE_BITS, (start + bytes - 1) >> GRANULE_BITS, NULL);
}

void *nvs_addresses_find(uint64_t address)
{
	uint64_t granule = address >> GRANULE_BITS;

	if (address >> ADDRESS_BITS || !leaves[granule >> LEAF_BITS])
		return NULL;
	return leaves[granule >> LEAF_BITS][granule % LEAF_GRANULES];
}

void nvs_addresses_forget(void)
{
	for (unsigned int leaf = 0; leaf < LEAVES; leaf++)
		if (leaves[leaf])
			memset(leaves[leaf], 0, LEAF_GRANULES * sizeof(void *));
}
