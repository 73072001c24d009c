/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which granules (2 MiB) of the arena are free. Pure; a set belongs to one thread at a time.
 * Granules are registered with the driver piece by piece, and no copy may span two pieces.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* cdef begin */
#define NVS_PIECE_GRANULES 32

struct nvs_granules {
	uint64_t *words; /* a bit for each granule: it is free */
	uint32_t count;	 /* of granules; the words are the caller's, 64 granules each */
	uint32_t free;
};

/* From `first` on, so many are free from now on, and were not. */
void nvs_granules_free(struct nvs_granules *granules, uint32_t first, uint32_t count);
/* From `first` on, so many are not free from now on, and all were. */
void nvs_granules_withdraw(struct nvs_granules *granules, uint32_t first, uint32_t count);
/*
 * Takes so many into `list`, ascending: one run if there is one, else the first that are free.
 * False: there are not enough, and nothing was taken.
 */
bool nvs_granules_take(struct nvs_granules *granules, uint32_t count, uint32_t *list);
/* How many at the beginning of the list lie one behind the other, in one piece. */
uint32_t nvs_granules_run(const uint32_t *list, uint32_t count);
/* cdef end */
