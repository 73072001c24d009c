/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of units in slabs. The free ones are in lists by size: classes of one size each up to 8
 * units, then 8 classes for each power of two, so that the first run of the next larger class
 * always fits. No lock: the caller's protects everything.
 */
#include "memory/swap/slabs.h"

#include <stdlib.h>

#define STEPS 8u /* classes for each power of two */

static unsigned int log2_of(uint32_t units)
{
	return 31u - (unsigned int)__builtin_clz(units);
}

/* The class that a run of so many units belongs to: all in it are as large as its smallest. */
static unsigned int class_of(uint32_t units)
{
	unsigned int power = log2_of(units);

	return units < STEPS ? units : (power - 2) * STEPS + (units >> (power - 3)) % STEPS;
}

/* The first class in which every run has so many units. */
static unsigned int class_for(uint32_t units)
{
	unsigned int power = log2_of(units);

	return class_of(units < STEPS ? units : units + (1u << (power - 3)) - 1);
}

static void list_free(struct nvs_slabs *slabs, struct nvs_small *run)
{
	unsigned int class = class_of(run->units);

	run->used = false;
	run->before = NULL;
	run->after = slabs->free[class];
	if (run->after)
		run->after->before = run;
	slabs->free[class] = run;
	slabs->has_free[class / 64] |= 1ULL << class % 64;
}

static void unlist_free(struct nvs_slabs *slabs, struct nvs_small *run)
{
	unsigned int class = class_of(run->units);

	if (run->after)
		run->after->before = run->before;
	if (run->before)
		run->before->after = run->after;
	else
		slabs->free[class] = run->after;
	if (!slabs->free[class])
		slabs->has_free[class / 64] &= ~(1ULL << class % 64);
}

static struct nvs_small *make_record(struct nvs_slabs *slabs)
{
	struct nvs_small *record = slabs->unused;

	if (record)
		slabs->unused = record->after;
	else
		record = malloc(sizeof(*record));
	return record;
}

static void drop_record(struct nvs_slabs *slabs, struct nvs_small *record)
{
	record->after = slabs->unused;
	slabs->unused = record;
}

static void set_run(struct nvs_slab *slab, struct nvs_small *run, uint32_t first, uint32_t units)
{
	run->slab = slab;
	run->first = first;
	run->units = units;
	slab->at[first] = run;
	slab->begins[first / 64] |= 1ULL << first % 64;
}

static void unset_run(struct nvs_small *run)
{
	run->slab->at[run->first] = NULL;
	run->slab->begins[run->first / 64] &= ~(1ULL << run->first % 64);
}

/* The run that the unit lies in. */
static struct nvs_small *run_at(const struct nvs_slab *slab, uint32_t unit)
{
	uint32_t word = unit / 64;
	uint64_t bits = slab->begins[word] & (~0ULL >> (63 - unit % 64));

	/* A run begins at unit 0. */
	while (!bits)
		bits = slab->begins[--word];
	return slab->at[word * 64 + 63 - (uint32_t)__builtin_clzll(bits)];
}

static void unlink_slab(struct nvs_slabs *slabs, struct nvs_slab *slab)
{
	if (slab->after)
		slab->after->before = slab->before;
	if (slab->before)
		slab->before->after = slab->after;
	else
		slabs->first = slab->after;
	if (slabs->empty == slab)
		slabs->empty = NULL;
}

struct nvs_slab *nvs_slab_make(uint64_t start, void *region)
{
	struct nvs_slab *slab = calloc(1, sizeof(*slab));

	if (slab) {
		slab->start = start;
		slab->region = region;
	}
	return slab;
}

bool nvs_slab_add(struct nvs_slabs *slabs, struct nvs_slab *slab)
{
	struct nvs_small *run = make_record(slabs);

	if (!run)
		return false;
	set_run(slab, run, 0, NVS_SLAB_UNITS);
	list_free(slabs, run);
	slab->before = NULL;
	slab->after = slabs->first;
	if (slab->after)
		slab->after->before = slab;
	slabs->first = slab;
	if (!slabs->empty)
		slabs->empty = slab;
	return true;
}

/* A free run of at least so many units. The first one of its own class may do, any of the next
 * must. */
static struct nvs_small *find_free(const struct nvs_slabs *slabs, uint32_t units)
{
	struct nvs_small *own = slabs->free[class_of(units)];
	unsigned int class = class_for(units);
	uint64_t bits;

	if (own && own->units >= units)
		return own;
	for (unsigned int word = class / 64; word < 2; word++) {
		bits = slabs->has_free[word];
		if (word == class / 64)
			bits &= ~0ULL << class % 64;
		if (bits)
			return slabs->free[word * 64 + (unsigned int)__builtin_ctzll(bits)];
	}
	return NULL;
}

struct nvs_small *nvs_small_take(struct nvs_slabs *slabs, uint32_t bytes)
{
	uint32_t units = (bytes + NVS_SMALL_UNIT - 1) / NVS_SMALL_UNIT;
	struct nvs_small *run = find_free(slabs, units), *rest = NULL;

	if (!run)
		return NULL;
	if (run->units > units) {
		rest = make_record(slabs);
		if (!rest)
			return NULL;
	}
	unlist_free(slabs, run);
	if (rest) {
		set_run(run->slab, rest, run->first + units, run->units - units);
		list_free(slabs, rest);
		run->units = units;
	}
	run->used = true;
	run->leaving = false;
	run->sync_memops = false;
	run->bytes = bytes;
	run->slab->used_units += units;
	if (slabs->empty == run->slab)
		slabs->empty = NULL;
	return run;
}

uint64_t nvs_small_start(const struct nvs_small *small)
{
	return small->slab->start + (uint64_t)small->first * NVS_SMALL_UNIT;
}

struct nvs_small *nvs_small_at(const struct nvs_slab *slab, uint64_t address)
{
	struct nvs_small *run = run_at(slab, (uint32_t)((address - slab->start) / NVS_SMALL_UNIT));

	return run->used ? run : NULL;
}

/* Joins the run with the free one behind it, if there is one. */
static void join(struct nvs_slabs *slabs, struct nvs_small *run)
{
	uint32_t end = run->first + run->units;
	struct nvs_small *next = end < NVS_SLAB_UNITS ? run->slab->at[end] : NULL;

	if (!next || next->used)
		return;
	unlist_free(slabs, next);
	unset_run(next);
	run->units += next->units;
	drop_record(slabs, next);
}

struct nvs_slab *nvs_small_give(struct nvs_slabs *slabs, struct nvs_small *small)
{
	struct nvs_slab *slab = small->slab;
	struct nvs_small *before = small->first ? run_at(slab, small->first - 1) : NULL;

	slab->used_units -= small->units;
	join(slabs, small);
	if (before && !before->used) {
		unlist_free(slabs, before);
		before->units += small->units;
		unset_run(small);
		drop_record(slabs, small);
		small = before;
	}
	list_free(slabs, small);
	if (slab->used_units)
		return NULL;
	if (!slabs->empty) {
		slabs->empty = slab;
		return NULL;
	}
	unlist_free(slabs, small);
	drop_record(slabs, small);
	unlink_slab(slabs, slab);
	return slab;
}

static void drop_records(struct nvs_slabs *slabs)
{
	while (slabs->unused) {
		struct nvs_small *record = slabs->unused;

		slabs->unused = record->after;
		free(record);
	}
}

struct nvs_slab *nvs_slab_take(struct nvs_slabs *slabs)
{
	struct nvs_slab *slab = slabs->first;

	if (!slab) {
		drop_records(slabs);
		return NULL;
	}
	for (uint32_t unit = 0; unit < NVS_SLAB_UNITS;) {
		struct nvs_small *run = slab->at[unit];

		unit += run->units;
		if (!run->used)
			unlist_free(slabs, run);
		drop_record(slabs, run);
	}
	unlink_slab(slabs, slab);
	return slab;
}
