/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the arenas. A device's lock protects its segments, its free granules and whose the others
 * are, and every chunk's list of granules; it is not held while the driver is called. A segment is
 * unmapped only when no chunk has any of it: a copy may go on.
 */
#define _GNU_SOURCE
#include "memory/swap/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "gate/device.h"
#include "memory/room.h"
#include "memory/swap/arena_record.h"
#include "memory/swap/chunk.h"
#include "memory/swap/granules.h"
#include "process/files.h"
#include "process/mutex.h"

static struct nvs_arena arenas[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
						     1] = { .lock = NVS_MUTEX(NVS_ORDER_ARENA) } };

struct nvs_arena *nvs_arena_lock(const struct nvs_device *device)
{
	struct nvs_arena *arena = &arenas[device->ordinal];

	nvs_mutex_lock(&arena->lock);
	return arena;
}

void nvs_arena_unlock(struct nvs_arena *const *arena)
{
	nvs_mutex_unlock(&(*arena)->lock);
}

void nvs_arena_tell_room(struct nvs_device *device)
{
	struct nvs_arena *arena = nvs_arena_lock(device);
	uint64_t received = arena->received, offered = arena->offered, returned = arena->returned;

	nvs_arena_unlock(&arena);
	nvs_room_set_arena(device, received * NVS_GRANULE_BYTES, offered * NVS_GRANULE_BYTES,
			   returned * NVS_GRANULE_BYTES);
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

void nvs_arena_offer(struct nvs_arena *arena, struct nvs_segment *segment, uint32_t end)
{
	if (end <= segment->offered)
		return;
	nvs_granules_free(&arena->granules, segment->first + segment->offered,
			  end - segment->offered);
	arena->offered += end - segment->offered;
	segment->offered = end;
}

void nvs_arena_offer_all(struct nvs_arena *arena)
{
	for (size_t i = 0; i < arena->count; i++)
		nvs_arena_offer(arena, &arena->segments[i], arena->segments[i].count);
}

static uint32_t pieces_of(uint32_t granules)
{
	return (granules + NVS_PIECE_GRANULES - 1) / NVS_PIECE_GRANULES;
}

uint32_t nvs_arena_pieces(const struct nvs_arena *arena)
{
	return pieces_of(arena->granules.count);
}

struct nvs_segment *nvs_arena_segment(const struct nvs_arena *arena, uint32_t granule)
{
	struct nvs_segment *segment = arena->segments;

	while (granule - segment->first >= segment->count)
		segment++;
	return segment;
}

char *nvs_arena_granule(const struct nvs_arena *arena, uint32_t granule)
{
	const struct nvs_segment *segment = nvs_arena_segment(arena, granule);

	return segment->base + (uint64_t)(granule - segment->first) * NVS_GRANULE_BYTES;
}

/* With the lock held: so many granules more, of nobody. False: no memory to note them. */
static bool lengthen(struct nvs_arena *arena, uint32_t after)
{
	uint32_t before = arena->granules.count, pieces_before = nvs_arena_pieces(arena);
	uint32_t words_before = (before + 63) / 64, words = (after + 63) / 64;

	if (!grow(&arena->owners, sizeof(*arena->owners), after) ||
	    !grow(&arena->memory, sizeof(*arena->memory), after) ||
	    !grow(&arena->pieces, sizeof(*arena->pieces), pieces_of(after)) ||
	    !grow(&arena->granules.words, sizeof(uint64_t), words))
		return false;
	memset(arena->owners + before, 0, (after - before) * sizeof(*arena->owners));
	memset(arena->memory + before, NVS_GRANULE_HERE, after - before);
	memset(arena->pieces + pieces_before, NVS_PIECE_NONE, pieces_of(after) - pieces_before);
	memset(arena->granules.words + words_before, 0, (words - words_before) * sizeof(uint64_t));
	arena->granules.count = after;
	return true;
}

/*
 * With the lock held: the first of so many granules that begin where a piece does, and of which
 * there is no memory: of a segment that was given back, or behind all others.
 */
static uint32_t find_place(const struct nvs_arena *arena, uint32_t count)
{
	uint32_t pieces = nvs_arena_pieces(arena), first = 0;

	for (uint32_t piece = 0; piece < pieces && piece - first < pieces_of(count); piece++)
		if (arena->pieces[piece] != NVS_PIECE_NONE)
			first = piece + 1;
	return first * NVS_PIECE_GRANULES;
}

/* With the lock held. False: no memory to note it. */
static bool note(struct nvs_arena *arena, char *base, uint32_t count)
{
	uint32_t first = find_place(arena, count), end = first + count;

	if (!grow(&arena->segments, sizeof(*arena->segments), arena->count + 1) ||
	    (end > arena->granules.count && !lengthen(arena, end)))
		return false;
	memset(arena->pieces + first / NVS_PIECE_GRANULES, NVS_PIECE_UNKNOWN, pieces_of(count));
	arena->segments[arena->count++] =
		(struct nvs_segment){ .base = base, .first = first, .count = count };
	if (arena->refused)
		nvs_arena_offer_all(arena);
	return true;
}

bool nvs_arena_is_segment(int descriptor, uint64_t bytes)
{
	struct stat file;

	return bytes && !(bytes % NVS_GRANULE_BYTES) &&
	       bytes / NVS_GRANULE_BYTES <= UINT32_MAX / 2 && !fstat(descriptor, &file) &&
	       S_ISREG(file.st_mode) && file.st_size >= 0 && (uint64_t)file.st_size == bytes;
}

bool nvs_arena_map(struct nvs_arena *arena, int descriptor, uint64_t bytes)
{
	char *base = nvs_file_map(descriptor, bytes);
	bool noted = base && note(arena, base, (uint32_t)(bytes / NVS_GRANULE_BYTES));

	if (base && !noted)
		munmap(base, bytes);
	return noted;
}

bool nvs_arena_add(struct nvs_device *device, int descriptor, uint64_t bytes)
{
	struct nvs_arena *arena = nvs_arena_lock(device);
	bool added = nvs_arena_map(arena, descriptor, bytes);

	if (added)
		arena->received += bytes / NVS_GRANULE_BYTES;
	nvs_arena_unlock(&arena);
	if (added)
		nvs_arena_tell_room(device);
	return added;
}

/* Granules */

uint64_t nvs_arena_room(const struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	return ((uint64_t)arena->granules.free + arena->spare) * NVS_GRANULE_BYTES;
}

static uint32_t granules_of(const struct nvs_chunk *chunk)
{
	return (uint32_t)(chunk->bytes / NVS_GRANULE_BYTES);
}

/* With the lock held. */
static void own(struct nvs_arena *arena, const struct nvs_chunk *chunk,
		struct nvs_granule_owner owner)
{
	for (uint32_t i = 0; i < granules_of(chunk); i++)
		arena->owners[chunk->granules[i]] = owner;
}

/* With the lock held: the chunk's granules are nobody's. */
static void drop(struct nvs_arena *arena, struct nvs_chunk *chunk)
{
	if (!chunk->granules)
		return;
	if (arena->owners[chunk->granules[0]].spare)
		arena->spare -= granules_of(chunk);
	own(arena, chunk, (struct nvs_granule_owner){ 0 });
	for (uint32_t i = 0; i < granules_of(chunk); i++)
		nvs_granules_free(&arena->granules, chunk->granules[i], 1);
	free(chunk->granules);
	chunk->granules = NULL;
}

/* With the lock held: a chunk that is on the device has no host copy any more. */
static void take_away(struct nvs_arena *arena, struct nvs_chunk *chunk)
{
	chunk->host_copy = false;
	drop(arena, chunk);
}

/* With the lock held: takes spare ones away until so many are free. */
static void steal(struct nvs_arena *arena, uint32_t count)
{
	for (uint32_t i = 0; i < arena->granules.count && arena->granules.free < count; i++)
		if (arena->owners[i].spare)
			take_away(arena, arena->owners[i].chunk);
}

/* With the lock held. */
static bool take(struct nvs_arena *arena, struct nvs_chunk *chunk)
{
	uint32_t count = granules_of(chunk), *list = malloc(count * sizeof(*list));

	if (list)
		steal(arena, count);
	if (!list || !nvs_granules_take(&arena->granules, count, list)) {
		free(list);
		return false;
	}
	chunk->granules = list;
	own(arena, chunk, (struct nvs_granule_owner){ .chunk = chunk });
	return true;
}

bool nvs_arena_hold(struct nvs_chunk *chunk)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(chunk->device);
	bool held = chunk->granules || take(arena, chunk);

	if (held && arena->owners[chunk->granules[0]].spare) {
		arena->spare -= granules_of(chunk);
		own(arena, chunk, (struct nvs_granule_owner){ .chunk = chunk });
	}
	return held;
}

void nvs_arena_spare(struct nvs_chunk *chunk)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(chunk->device);

	if (chunk->granules && !arena->owners[chunk->granules[0]].spare) {
		arena->spare += granules_of(chunk);
		own(arena, chunk, (struct nvs_granule_owner){ .chunk = chunk, .spare = true });
	}
}

void *nvs_arena_place(const struct nvs_chunk *chunk, uint64_t offset, uint64_t *bytes)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(chunk->device);
	uint32_t index = (uint32_t)(offset / NVS_GRANULE_BYTES);

	*bytes = (uint64_t)nvs_granules_run(chunk->granules + index, granules_of(chunk) - index) *
		 NVS_GRANULE_BYTES;
	return nvs_arena_granule(arena, chunk->granules[index]);
}

void nvs_arena_give(struct nvs_chunk *chunk)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(chunk->device);

	drop(arena, chunk);
}

/* What goes back */

/* With the lock held: how many granules chunks on the device have; UINT32_MAX: it can't go. */
static uint32_t spare_of(const struct nvs_arena *arena, const struct nvs_segment *segment)
{
	uint32_t spare = 0;

	if (segment->offered < segment->count)
		return UINT32_MAX;
	for (uint32_t i = segment->first; i < segment->first + segment->count; i++) {
		if (arena->memory[i] != NVS_GRANULE_HERE ||
		    (arena->owners[i].chunk && !arena->owners[i].spare))
			return UINT32_MAX;
		spare += arena->owners[i].spare;
	}
	return spare;
}

bool nvs_arena_take_out(const struct nvs_device *device, uint64_t most, struct nvs_segment *taken)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);
	uint32_t least = UINT32_MAX;

	for (size_t i = arena->count; i-- > 0;) {
		const struct nvs_segment *segment = arena->segments + i;
		uint32_t spare = (uint64_t)segment->count * NVS_GRANULE_BYTES > most
					 ? UINT32_MAX
					 : spare_of(arena, segment);

		if (spare < least) {
			least = spare;
			*taken = *segment;
		}
	}
	if (least == UINT32_MAX)
		return false;
	for (uint32_t i = taken->first; i < taken->first + taken->count; i++)
		if (arena->owners[i].spare)
			take_away(arena, arena->owners[i].chunk);
	nvs_granules_withdraw(&arena->granules, taken->first, taken->count);
	return true;
}

void nvs_arena_put_in(const struct nvs_device *device, const struct nvs_segment *taken)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	nvs_granules_free(&arena->granules, taken->first, taken->count);
}

void nvs_arena_give_back(struct nvs_device *device, const struct nvs_segment *taken)
{
	struct nvs_arena *arena = nvs_arena_lock(device);
	struct nvs_segment *segment = nvs_arena_segment(arena, taken->first);

	memset(arena->pieces + taken->first / NVS_PIECE_GRANULES, NVS_PIECE_NONE,
	       pieces_of(taken->count));
	*segment = arena->segments[--arena->count];
	arena->returned += taken->count;
	nvs_arena_unlock(&arena);
	munmap(taken->base, (uint64_t)taken->count * NVS_GRANULE_BYTES);
	nvs_arena_tell_room(device);
}

/* For who sleeps */

bool nvs_arena_contents(const struct nvs_device *device, struct nvs_content **list, uint32_t *count)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	*count = 0;
	*list = malloc((arena->granules.count + 1) * sizeof(**list));
	if (!*list)
		return false;
	/* More than there can be: of no chunk that is on the device is anything kept. */
	steal(arena, UINT32_MAX);
	for (size_t i = 0; i < arena->count; i++) {
		const struct nvs_segment *segment = arena->segments + i;

		for (uint32_t j = segment->first; j < segment->first + segment->count; j++) {
			if (arena->owners[j].chunk)
				(*list)[(*count)++] =
					(struct nvs_content){ nvs_arena_granule(arena, j), j };
		}
	}
	return true;
}

uint64_t nvs_arena_bytes(const struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	return (arena->received - arena->returned) * NVS_GRANULE_BYTES;
}

void nvs_arenas_forked(void)
{
	for (struct nvs_arena *arena = arenas; arena < arenas + NVS_MAX_DEVICES; arena++) {
		for (struct nvs_late_segment *late = arena->late; late; late = late->next)
			nvs_file_close(&late->file);
		*arena = (struct nvs_arena){ .lock = NVS_MUTEX(NVS_ORDER_ARENA) };
	}
}
