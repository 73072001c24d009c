/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the memory stays in it. */
#include <pthread.h>

#include "store.h"

/* Thousands of allocations and frees of threads, beside a mover that brings all out and in again.
 */
struct piece {
	CUdeviceptr start;
	uint64_t words;
	uint32_t tag;
};

#define PIECES 10

static _Atomic bool over;
static _Atomic unsigned int steps;

static uint32_t word_at(const struct piece *piece, uint64_t word)
{
	uint32_t value;

	OK(cuMemcpyDtoH_v2(&value, piece->start + word * 4, 4));
	return value;
}

static void verify(const struct piece *piece, uint32_t chance)
{
	CHECK(word_at(piece, 0) == piece->tag);
	CHECK(word_at(piece, chance % piece->words) == piece->tag);
	CHECK(word_at(piece, piece->words - 1) == piece->tag);
}

static void make(struct piece *piece, uint32_t chance)
{
	static const uint64_t sizes[] = { 1024, 1 << 16, 1 << 20, 3 << 20, 70 << 20 };
	uint64_t bytes = chance % sizes[chance / 7 % 256 ? chance % 4 : 4] + 4;

	piece->words = bytes / 4;
	piece->tag = chance;
	OK(cuMemAlloc_v2(&piece->start, bytes));
	CHECK(piece->start % 512 == 0);
	OK(cuMemsetD32_v2(piece->start, piece->tag, piece->words));
}

static void *churn(void *number)
{
	struct piece pieces[PIECES] = { { 0 } };
	unsigned int seed = (unsigned int)(uintptr_t)number;

	OK(cuCtxSetCurrent(context));
	while (!atomic_load(&over)) {
		uint32_t chance = (uint32_t)rand_r(&seed);
		struct piece *piece = &pieces[chance % PIECES];

		chance = (uint32_t)rand_r(&seed);
		if (!piece->start) {
			make(piece, chance);
		} else if (chance % 3) {
			verify(piece, chance);
		} else {
			verify(piece, chance);
			OK(cuMemFree_v2(piece->start));
			piece->start = 0;
		}
		atomic_fetch_add(&steps, 1);
	}
	for (int i = 0; i < PIECES; i++)
		if (pieces[i].start) {
			verify(&pieces[i], 0);
			OK(cuMemFree_v2(pieces[i].start));
		}
	return NULL;
}

static void contents(int threads, unsigned int wanted)
{
	pthread_t ids[16];
	uint64_t moved = 0;

	begin();
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, churn, (void *)(uintptr_t)(i + 1));
	while (atomic_load(&steps) < wanted) {
		unsigned int before = atomic_load(&steps);

		close_gate();
		while (send_out())
			moved++;
		open_gate();
		while (atomic_load(&steps) < before + 200)
			usleep(100);
	}
	atomic_store(&over, true);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	/* One empty slab may stay. */
	CHECK(nvs_chunks_resident(device) + nvs_chunks_out_bytes(device) <= 2 * MIB);
	CHECK(room.footprint == room.resident && room.footprint <= 2 * MIB);
	printf("moved %s\n", moved > 20 ? "enough" : "too little");
}

void eight_threads(void)
{
	contents(8, 4000);
}

void one_thread(void)
{
	contents(1, 3000);
}
