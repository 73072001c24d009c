/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that a program keeps from round to round, with contents that it knows: what must
 * be the same whenever it is looked at, wherever it was meanwhile. Some of it the program maps
 * itself, some it frees in a stream's order, and some a graph works on that was captured long ago.
 * For chaos.c, whose threads don't share these.
 */
#ifndef NVSHARE_TEST_BELONGINGS_H
#define NVSHARE_TEST_BELONGINGS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "program.h"

#define BELONGINGS 24
#define MOST_BYTES (160ull << 20)
#define GRANULE_BYTES (2ull << 20)
#define MARK_FLOATS 256
#define MARK_BYTES (MARK_FLOATS * sizeof(float))
#define STRIDE_BYTES (3ull << 20) /* not a multiple of what moves as a whole */

struct belonging {
	CUdeviceptr address; /* 0: none */
	size_t bytes;
	size_t mapped; /* by the program itself; 0: cuMemAlloc did it */
	float value;
};

/* Adds 2 to each mark of `sum` whenever it is launched, by `twos`, which nothing writes later. */
struct adder {
	CUgraphExec graph; /* NULL: not captured yet */
	struct belonging twos, sum;
};

struct belongings {
	struct belonging list[BELONGINGS];
	struct adder adder;
	size_t bytes;
	CUdevice device;
	CUfunction fill, axpy;
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

static inline size_t whole(size_t bytes)
{
	return (bytes + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
}

static inline void map(const struct belongings *all, struct belonging *one)
{
	CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = all->device };
	CUmemAllocationProp_v1 prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = place };
	CUmemAccessDesc_v1 access = { place, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;

	one->mapped = whole(one->bytes);
	CHECK(cuMemAddressReserve(&one->address, one->mapped, 0, 0, 0));
	CHECK(cuMemCreate(&handle, one->mapped, &prop, 0));
	CHECK(cuMemMap(one->address, one->mapped, 0, handle, 0));
	CHECK(cuMemSetAccess(one->address, one->mapped, &access, 1));
	CHECK(cuMemRelease(handle)); /* the mapping keeps the memory */
}

static inline void acquire(struct belongings *all, struct belonging *one, bool maps)
{
	one->mapped = 0;
	if (maps)
		map(all, one);
	else
		CHECK(cuMemAlloc_v2(&one->address, one->bytes));
	all->bytes += one->bytes;
}

static inline void dispose(struct belongings *all, struct belonging *one, bool in_order)
{
	if (one->mapped) {
		CHECK(cuMemUnmap(one->address, one->mapped));
		CHECK(cuMemAddressFree(one->address, one->mapped));
	} else if (in_order) {
		CHECK(cuMemFreeAsync(one->address, all->stream));
	} else {
		CHECK(cuMemFree_v2(one->address));
	}
	all->bytes -= one->bytes;
	one->address = 0;
}

/* Puts one of them in another's place, after a look at it. `random`: any number. */
static inline void exchange(struct belongings *all, uint32_t random)
{
	static const size_t most[] = { 4096, 1 << 20, 8 << 20, 80 << 20 };
	struct belonging *one = &all->list[random % BELONGINGS];
	size_t bytes = MARK_BYTES + random % most[random / BELONGINGS % 4];

	if (one->address) {
		check_all(all, one);
		dispose(all, one, random / 7 % 2);
	}
	if (all->bytes + bytes > MOST_BYTES)
		return;
	one->bytes = bytes;
	one->value = (float)(random % 1000);
	acquire(all, one, random / 11 % 4 == 0);
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

static inline void add_twos(const struct belongings *all)
{
	const struct adder *adder = &all->adder;
	CUdeviceptr x = adder->twos.address, y;
	unsigned long long count = MARK_FLOATS;
	float factor = 1;
	void *parameters[] = { &factor, &x, &y, &count };

	for (size_t offset = 0; offset + MARK_BYTES <= adder->sum.bytes; offset += STRIDE_BYTES) {
		y = adder->sum.address + offset;
		CHECK(cuLaunchKernel(all->axpy, 1, 1, 1, MARK_FLOATS, 1, 1, 0, all->stream,
				     parameters, NULL));
	}
}

static inline void capture(struct belongings *all, uint32_t random)
{
	struct adder *adder = &all->adder;
	CUgraph graph;

	adder->twos.bytes = MARK_BYTES;
	adder->twos.value = 2;
	adder->sum.bytes = MARK_BYTES + random % (16 << 20);
	acquire(all, &adder->twos, false);
	acquire(all, &adder->sum, random % 3 == 0);
	write_all(all, &adder->twos);
	write_all(all, &adder->sum);
	CHECK(cuStreamBeginCapture_v2(all->stream, (int)(random % 3)));
	add_twos(all);
	CHECK(cuStreamEndCapture(all->stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&adder->graph, graph, 0));
	CHECK(cuGraphDestroy(graph));
}

/* Launches the graph once more, which was captured in the first of these rounds. */
static inline void replay(struct belongings *all, uint32_t random)
{
	struct adder *adder = &all->adder;

	if (!adder->graph)
		capture(all, random);
	check_all(all, &adder->sum);
	CHECK(cuGraphLaunch(adder->graph, all->stream));
	adder->sum.value += 2;
	CHECK(cuStreamSynchronize(all->stream));
	check_all(all, &adder->sum);
}

#endif
