/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the tables of memory ranges and of reservations: arrays of pointers sorted by address,
 * without overlaps. Protected by sim.lock, except that a range which an operation has pinned stays
 * as it is until it is unpinned.
 */
#include "memory/range.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct table {
	struct sim_range **entries;
	size_t count;
	size_t room;
};

static struct table ranges;
static struct table reservations;

/* The index of the first entry that ends behind the address. */
static size_t first_behind(const struct table *table, uint64_t address)
{
	size_t low = 0;
	size_t high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->entries[middle]->start + table->entries[middle]->span <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct sim_range *next_in(const struct table *table, uint64_t address)
{
	size_t at = first_behind(table, address);

	return at < table->count ? table->entries[at] : NULL;
}

static struct sim_range *find_in(const struct table *table, uint64_t address)
{
	struct sim_range *range = next_in(table, address);

	return range && range->start <= address ? range : NULL;
}

static struct sim_range *add_to(struct table *table, enum sim_range_kind kind, uint64_t start,
				uint64_t bytes, uint64_t span)
{
	struct sim_range *range = calloc(1, sizeof(*range));
	size_t at = first_behind(table, start);

	if (table->count == table->room) {
		table->room = table->room ? table->room * 2 : 64;
		table->entries = realloc(table->entries, table->room * sizeof(struct sim_range *));
	}
	memmove(&table->entries[at + 1], &table->entries[at],
		(table->count - at) * sizeof(struct sim_range *));
	table->entries[at] = range;
	table->count++;
	range->kind = kind;
	range->start = start;
	range->bytes = bytes;
	range->span = span;
	range->id = ++sim.last_id;
	return range;
}

static void remove_from(struct table *table, const struct sim_range *range)
{
	size_t at = first_behind(table, range->start);

	table->count--;
	memmove(&table->entries[at], &table->entries[at + 1],
		(table->count - at) * sizeof(struct sim_range *));
}

struct sim_range *sim_range_add_locked(enum sim_range_kind kind, uint64_t start, uint64_t bytes,
				       uint64_t span)
{
	return add_to(&ranges, kind, start, bytes, span);
}

struct sim_range *sim_range_find_locked(uint64_t address)
{
	return find_in(&ranges, address);
}

struct sim_range *sim_range_live_locked(uint64_t address)
{
	struct sim_range *range = sim_range_find_locked(address);

	return range && !range->going ? range : NULL;
}

struct sim_range *sim_range_next_locked(uint64_t address)
{
	return next_in(&ranges, address);
}

bool sim_range_has_locked(enum sim_range_kind kind)
{
	for (size_t i = 0; i < ranges.count; i++) {
		if (ranges.entries[i]->kind == kind)
			return true;
	}
	return false;
}

struct sim_range *sim_reservation_add_locked(uint64_t start, uint64_t bytes)
{
	struct sim_range *reservation =
		add_to(&reservations, SIM_RANGE_RESERVED, start, bytes, bytes);

	reservation->requested_bytes = bytes;
	return reservation;
}

struct sim_range *sim_reservation_find_locked(uint64_t address)
{
	return find_in(&reservations, address);
}

struct sim_range *sim_reservation_next_locked(uint64_t address)
{
	return next_in(&reservations, address);
}

void sim_reservation_remove_locked(struct sim_range *reservation)
{
	remove_from(&reservations, reservation);
	free(reservation);
}

void sim_range_drop_locked(struct sim_range *range)
{
	void *host = (void *)(uintptr_t)range->start;

	range->going = true;
	while (range->pins > 0)
		pthread_cond_wait(&sim.changed, &sim.lock);
	if (range->ends_locked)
		range->ends_locked(range);
	remove_from(&ranges, range);
	switch (range->kind) {
	case SIM_RANGE_DEVICE:
		sim_discard_in_place(range->start, range->span);
		break;
	case SIM_RANGE_MANAGED:
	case SIM_RANGE_HOST:
		munmap(host, range->span);
		break;
	case SIM_RANGE_MAPPED:
		sim_file_unmap(range->start, range->span);
		if (range->physical->device < 0)
			sim_file_hide(range->start, range->span);
		sim_physical_unref_locked(range->physical);
		break;
	case SIM_RANGE_REGISTERED:
	case SIM_RANGE_RESERVED:
		break;
	}
	if (range->used_bytes)
		*range->used_bytes -= range->bytes;
	if (range->charged_bytes > 0)
		sim_state_uncharge(&sim.state, range->device, range->charged_bytes);
	free(range);
}

static struct sim_range *first_of_context(const struct CUctx_st *context)
{
	for (size_t i = 0; i < ranges.count; i++) {
		struct sim_range *range = ranges.entries[i];

		if (range->context == context && range->kind != SIM_RANGE_MAPPED && !range->going)
			return range;
	}
	return NULL;
}

void sim_range_drop_context_locked(const struct CUctx_st *context)
{
	struct sim_range *range;

	while ((range = first_of_context(context)) != NULL)
		sim_range_drop_locked(range);
}
