/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that a program keeps from round to round, with contents that it knows: what must
 * be the same whenever it is looked at, wherever it was meanwhile. For chaos.c, whose threads don't
 * share these.
 */
#ifndef NVSHARE_TEST_BELONGINGS_H
#define NVSHARE_TEST_BELONGINGS_H

#include <stdio.h>
#include <stdlib.h>

#include "program.h"

#define BELONGINGS 24
#define MOST_BYTES (160ull << 20)
#define MARK_FLOATS 256
#define MARK_BYTES (MARK_FLOATS * sizeof(float))
#define STRIDE_BYTES (3ull << 20) /* not a multiple of what moves as a whole */

struct belonging {
	CUdeviceptr address; /* 0: none */
	size_t bytes;
	float value;
};

struct belongings {
	struct belonging list[BELONGINGS];
	size_t bytes;
	CUfunction fill;
	CUstream stream;
};

static inline void mark(const struct belongings *all, CUdeviceptr address, float value)
{
	unsigned long long count = MARK_FLOATS;
	void *parameters[] = { &address, &value, &count };

	CHECK(cuLaunchKernel(all->fill, 1, 1, 1, MARK_FLOATS, 1, 1, 0, all->stream, parameters,
			     NULL));
}

/* Marks differ by their places, so that memory that came back elsewhere is seen. */
static inline float value_at(const struct belonging *one, size_t offset)
{
	return one->value + (float)(offset / STRIDE_BYTES);
}

static inline void write_all(const struct belongings *all, const struct belonging *one)
{
	for (size_t offset = 0; offset + MARK_BYTES <= one->bytes; offset += STRIDE_BYTES)
		mark(all, one->address + offset, value_at(one, offset));
	CHECK(cuStreamSynchronize(all->stream));
}

static inline void check_all(const struct belongings *all, const struct belonging *one)
{
	float values[MARK_FLOATS];

	for (size_t offset = 0; offset + MARK_BYTES <= one->bytes; offset += STRIDE_BYTES) {
		CHECK(cuMemcpyDtoHAsync_v2(values, one->address + offset, sizeof(values),
					   all->stream));
		CHECK(cuStreamSynchronize(all->stream));
		for (int i = 0; i < MARK_FLOATS; i++) {
			if (values[i] == value_at(one, offset))
				continue;
			fprintf(stderr, "%s: float %d at %zu of %zu bytes at %llx is %g, not %g\n",
				program_invocation_short_name, i, offset, one->bytes,
				(unsigned long long)one->address, values[i], value_at(one, offset));
			exit(1);
		}
	}
}

/* Puts one of them in another's place, after a look at it. `random`: any number. */
static inline void exchange(struct belongings *all, uint32_t random)
{
	static const size_t most[] = { 4096, 1 << 20, 8 << 20, 80 << 20 };
	struct belonging *one = &all->list[random % BELONGINGS];
	size_t bytes = MARK_BYTES + random % most[random / BELONGINGS % 4];

	if (one->address) {
		check_all(all, one);
		CHECK(cuMemFree_v2(one->address));
		all->bytes -= one->bytes;
		one->address = 0;
	}
	if (all->bytes + bytes > MOST_BYTES)
		return;
	one->bytes = bytes;
	one->value = (float)(random % 1000);
	CHECK(cuMemAlloc_v2(&one->address, bytes));
	all->bytes += bytes;
	write_all(all, one);
}

/* Looks at one, and writes it anew. */
static inline void use(struct belongings *all, uint32_t random)
{
	struct belonging *one = &all->list[random % BELONGINGS];

	if (!one->address)
		return;
	check_all(all, one);
	one->value = (float)(random % 1000);
	write_all(all, one);
}

#endif
