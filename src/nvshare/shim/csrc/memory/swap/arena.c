/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the arenas. A device's lock protects its segments, its free granules and whose the others
 * are, and every chunk's list of granules; it is not held while the driver is called. Segments are
 * never unmapped: a copy may go on.
 */
#define _GNU_SOURCE
#include "memory/swap/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/room.h"
#include "memory/swap/chunk.h"
#include "memory/swap/granules.h"
#include "process/files.h"
#include "process/log.h"
#include "process/mutex.h"

/* The first granule is the first of a piece, so granules of two segments are never in one. */
struct segment {
	char *base;
	uint32_t first, count; /* granules */
	uint32_t ready;	       /* of them: registered, or given up */
	uint32_t offered;      /* of them: that chunks may have; never less than ready */
};

struct owner {
	struct nvs_chunk *chunk; /* NULL: nobody's */
	bool spare;
};

struct arena {
	struct nvs_mutex lock;
	struct segment *segments;
	size_t count;
	struct nvs_granules granules;
	struct owner *owners; /* of each granule */
	uint32_t spare;	      /* granules that are owned, and another chunk may have */
	bool refused;	      /* the driver registers nothing more; said so */
};

static struct arena arenas[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
						 1] = { .lock = NVS_MUTEX(NVS_ORDER_ARENA) } };

static struct arena *lock(const struct nvs_device *device)
{
	struct arena *arena = &arenas[device->ordinal];

	nvs_mutex_lock(&arena->lock);
	return arena;
}

static void unlock(struct arena *const *arena)
{
	nvs_mutex_unlock(&(*arena)->lock);
}

/* With the lock given back. */
static void tell_room(struct nvs_device *device)
{
	struct arena *arena = lock(device);
	uint64_t mapped = 0, usable = 0;

	for (size_t i = 0; i < arena->count; i++) {
		const struct segment *segment = &arena->segments[i];

		mapped += segment->count;
		usable += arena->refused ? segment->count : segment->ready;
	}
	unlock(&arena);
	nvs_room_set_arena(device, mapped * NVS_GRANULE_BYTES, usable * NVS_GRANULE_BYTES);
}

/* Segments */

static bool grow(void *array, size_t size, size_t count)
{
	void *old, *grown;

	memcpy(&old, array, sizeof(old));
	grown = realloc(old, size * count);
	if (grown)
		memcpy(array, &grown, sizeof(grown));
	return grown != NULL;
}

/* With the lock held: the granules before `end` are there for chunks. */
static void offer(struct arena *arena, struct segment *segment, uint32_t end)
{
	if (end <= segment->offered)
		return;
	nvs_granules_free(&arena->granules, segment->first + segment->offered,
			  end - segment->offered);
	segment->offered = end;
}

/* With the lock held: all can be used, though not all is registered. */
static void offer_all(struct arena *arena)
{
	for (size_t i = 0; i < arena->count; i++)
		offer(arena, &arena->segments[i], arena->segments[i].count);
}

/* With the lock held. False: no memory to note it. */
static bool note(struct arena *arena, char *base, uint32_t count)
{
	uint32_t before = arena->granules.count, words_before = (before + 63) / 64;
	uint32_t first =
		(before + NVS_PIECE_GRANULES - 1) / NVS_PIECE_GRANULES * NVS_PIECE_GRANULES;
	uint32_t after = first + count, words = (after + 63) / 64;

	if (!grow(&arena->segments, sizeof(*arena->segments), arena->count + 1) ||
	    !grow(&arena->owners, sizeof(*arena->owners), after) ||
	    !grow(&arena->granules.words, sizeof(uint64_t), words))
		return false;
	memset(arena->owners + before, 0, (after - before) * sizeof(*arena->owners));
	memset(arena->granules.words + words_before, 0, (words - words_before) * sizeof(uint64_t));
	arena->granules.count = after;
	arena->segments[arena->count++] =
		(struct segment){ .base = base, .first = first, .count = count };
	if (arena->refused)
		offer_all(arena);
	return true;
}

bool nvs_arena_add(struct nvs_device *device, int descriptor, uint64_t bytes)
{
	struct stat file;
	struct arena *arena;
	bool noted = false;
	char *base;

	if (!bytes || bytes % NVS_GRANULE_BYTES || bytes / NVS_GRANULE_BYTES > UINT32_MAX / 2 ||
	    fstat(descriptor, &file) || !S_ISREG(file.st_mode) || file.st_size < 0 ||
	    (uint64_t)file.st_size != bytes)
		return false;
	base = nvs_file_map(descriptor, bytes);
	if (base) {
		arena = lock(device);
		noted = note(arena, base, (uint32_t)(bytes / NVS_GRANULE_BYTES));
		unlock(&arena);
	}
	if (base && !noted)
		munmap(base, bytes);
	if (noted)
		tell_room(device);
	else
		nvs_log("device %d: host memory of %llu bytes to swap into can't be mapped",
			device->ordinal, (unsigned long long)bytes);
	return true;
}

/* With the lock held. The first that has something to register; NULL: none. */
static struct segment *next_segment(const struct arena *arena)
{
	for (size_t i = 0; !arena->refused && i < arena->count; i++)
		if (arena->segments[i].ready < arena->segments[i].count)
			return &arena->segments[i];
	return NULL;
}

bool nvs_arena_unregistered(const struct nvs_device *device)
{
	struct arena *arena NVS_ENDS(unlock) = lock(device);

	return next_segment(arena) != NULL;
}

/* Copies still work, slowly: better than not at all. */
static void give_up(struct nvs_device *device, CUresult result)
{
	struct arena *arena = lock(device);
	bool first = !arena->refused;

	arena->refused = true;
	offer_all(arena);
	unlock(&arena);
	tell_room(device);
	if (first)
		nvs_log("device %d: the driver does not register host memory (error %d); swapping "
			"will be slow",
			device->ordinal, (int)result);
}

bool nvs_arena_register(struct nvs_device *device)
{
	struct arena *arena = lock(device);
	struct segment *segment = next_segment(arena);
	size_t number = segment ? (size_t)(segment - arena->segments) : 0;
	uint32_t begin = segment ? segment->ready : 0;
	uint32_t left = segment ? segment->count - begin : 0;
	uint32_t count = left < NVS_PIECE_GRANULES ? left : NVS_PIECE_GRANULES;
	char *base = segment ? segment->base + (uint64_t)begin * NVS_GRANULE_BYTES : NULL;
	CUresult result;

	unlock(&arena);
	if (!base)
		return false;
	result = NVS_CALL(cuMemHostRegister_v2, base, (size_t)count * NVS_GRANULE_BYTES,
			  CU_MEMHOSTREGISTER_PORTABLE);
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
		give_up(device, result);
		return false;
	}
	lock(device);
	segment = &arena->segments[number];
	segment->ready = begin + count;
	offer(arena, segment, segment->ready);
	unlock(&arena);
	tell_room(device);
	return true;
}

void nvs_arena_register_again(struct nvs_device *device)
{
	struct arena *arena NVS_ENDS(unlock) = lock(device);

	for (size_t i = 0; i < arena->count; i++)
		arena->segments[i].ready = 0;
	arena->refused = false;
}

/* Granules */

uint64_t nvs_arena_room(const struct nvs_device *device)
{
	struct arena *arena NVS_ENDS(unlock) = lock(device);

	return ((uint64_t)arena->granules.free + arena->spare) * NVS_GRANULE_BYTES;
}

static uint32_t granules_of(const struct nvs_chunk *chunk)
{
	return (uint32_t)(chunk->bytes / NVS_GRANULE_BYTES);
}

/* With the lock held. */
static void own(struct arena *arena, const struct nvs_chunk *chunk, struct owner owner)
{
	for (uint32_t i = 0; i < granules_of(chunk); i++)
		arena->owners[chunk->granules[i]] = owner;
}

/* With the lock held: the chunk's granules are nobody's. */
static void drop(struct arena *arena, struct nvs_chunk *chunk)
{
	if (!chunk->granules)
		return;
	if (arena->owners[chunk->granules[0]].spare)
		arena->spare -= granules_of(chunk);
	own(arena, chunk, (struct owner){ 0 });
	for (uint32_t i = 0; i < granules_of(chunk); i++)
		nvs_granules_free(&arena->granules, chunk->granules[i], 1);
	free(chunk->granules);
	chunk->granules = NULL;
}

/* With the lock held: takes spare ones away until so many are free. */
static void steal(struct arena *arena, uint32_t count)
{
	for (uint32_t i = 0; i < arena->granules.count && arena->granules.free < count; i++)
		if (arena->owners[i].spare) {
			arena->owners[i].chunk->host_copy = false;
			drop(arena, arena->owners[i].chunk);
		}
}

/* With the lock held. */
static bool take(struct arena *arena, struct nvs_chunk *chunk)
{
	uint32_t count = granules_of(chunk), *list = malloc(count * sizeof(*list));

	if (list)
		steal(arena, count);
	if (!list || !nvs_granules_take(&arena->granules, count, list)) {
		free(list);
		return false;
	}
	chunk->granules = list;
	own(arena, chunk, (struct owner){ .chunk = chunk });
	return true;
}

bool nvs_arena_hold(struct nvs_chunk *chunk)
{
	struct arena *arena NVS_ENDS(unlock) = lock(chunk->device);
	bool held = chunk->granules || take(arena, chunk);

	if (held && arena->owners[chunk->granules[0]].spare) {
		arena->spare -= granules_of(chunk);
		own(arena, chunk, (struct owner){ .chunk = chunk });
	}
	return held;
}

void nvs_arena_spare(struct nvs_chunk *chunk)
{
	struct arena *arena NVS_ENDS(unlock) = lock(chunk->device);

	if (chunk->granules && !arena->owners[chunk->granules[0]].spare) {
		arena->spare += granules_of(chunk);
		own(arena, chunk, (struct owner){ .chunk = chunk, .spare = true });
	}
}

void *nvs_arena_place(const struct nvs_chunk *chunk, uint64_t offset, uint64_t *bytes)
{
	struct arena *arena NVS_ENDS(unlock) = lock(chunk->device);
	uint32_t index = (uint32_t)(offset / NVS_GRANULE_BYTES);
	uint32_t granule = chunk->granules[index];
	const struct segment *segment = arena->segments;

	while (granule - segment->first >= segment->count)
		segment++;
	*bytes = (uint64_t)nvs_granules_run(chunk->granules + index, granules_of(chunk) - index) *
		 NVS_GRANULE_BYTES;
	return segment->base + (uint64_t)(granule - segment->first) * NVS_GRANULE_BYTES;
}

void nvs_arena_give(struct nvs_chunk *chunk)
{
	struct arena *arena NVS_ENDS(unlock) = lock(chunk->device);

	drop(arena, chunk);
}

void nvs_arenas_forked(void)
{
	for (struct arena *arena = arenas; arena < arenas + NVS_MAX_DEVICES; arena++)
		*arena = (struct arena){ .lock = NVS_MUTEX(NVS_ORDER_ARENA) };
}
