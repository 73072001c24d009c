/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what memory each granule has. The arena's lock protects that; it is not held while anything
 * is mapped or let go.
 */
#include "memory/away/arena_away.h"

#include "gate/device.h"
#include "memory/swap/arena_record.h"
#include "memory/swap/chunk.h"
#include "process/ends.h"
#include "process/files.h"

/* Granules of one segment, one behind the other. */
struct row {
	char *place;
	uint32_t first, count;
};

/* The first row of those with that memory, of so many at the most; false: there is none. */
static bool find_row(const struct nvs_device *device, enum nvs_granule_memory memory, uint64_t most,
		     struct row *row)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	for (size_t i = 0; i < arena->count; i++) {
		const struct nvs_segment *segment = arena->segments + i;
		uint32_t end = segment->first + segment->count;

		for (uint32_t j = segment->first; j < end; j++) {
			if (arena->memory[j] != memory)
				continue;
			*row = (struct row){ .place = nvs_arena_granule(arena, j), .first = j };
			while (row->count < most && j < end && arena->memory[j] == memory)
				row->count++, j++;
			return true;
		}
	}
	return false;
}

static void mark(const struct nvs_device *device, const struct row *row,
		 enum nvs_granule_memory memory)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	for (uint32_t i = 0; i < row->count; i++)
		arena->memory[row->first + i] = memory;
}

static uint64_t bytes_of(const struct row *row)
{
	return (uint64_t)row->count * NVS_GRANULE_BYTES;
}

uint32_t nvs_arena_segments(const struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	return (uint32_t)arena->count;
}

static void let_go(const struct nvs_device *device, const struct row *row)
{
	nvs_file_unmap(row->place, bytes_of(row));
	mark(device, row, NVS_GRANULE_AWAY);
}

void nvs_arena_let_go(const struct nvs_device *device, uint32_t number)
{
	struct nvs_arena *arena = nvs_arena_lock(device);
	struct nvs_segment segment = arena->segments[number];

	nvs_arena_unlock(&arena);
	let_go(device, &(struct row){ segment.base, segment.first, segment.count });
}

/* The rest of its segment keeps the file, so its memory has to be taken out of that. */
bool nvs_arena_let_go_granule(const struct nvs_device *device, uint32_t granule)
{
	struct nvs_arena *arena = nvs_arena_lock(device);
	struct row row = { nvs_arena_granule(arena, granule), granule, 1 };

	nvs_arena_unlock(&arena);
	if (!nvs_file_free(row.place, bytes_of(&row)))
		return false;
	let_go(device, &row);
	return true;
}

uint64_t nvs_arena_away_bytes(const struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);
	uint64_t granules = 0;

	for (uint32_t i = 0; i < arena->granules.count; i++)
		granules += arena->memory[i] == NVS_GRANULE_AWAY;
	return granules * NVS_GRANULE_BYTES;
}

bool nvs_arena_is_away(const struct nvs_device *device, uint32_t granule)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	return arena->memory[granule] == NVS_GRANULE_AWAY;
}

bool nvs_arena_put_back(const struct nvs_device *device, int descriptor, uint64_t bytes)
{
	bool mapped = true;
	struct row row;

	for (uint64_t done = 0; done < bytes; done += bytes_of(&row)) {
		if (!find_row(device, NVS_GRANULE_AWAY, (bytes - done) / NVS_GRANULE_BYTES, &row))
			return false;
		if (!nvs_file_map_over(row.place, descriptor, done, bytes_of(&row)))
			mapped = false;
		mark(device, &row, NVS_GRANULE_GIVEN);
	}
	return mapped;
}

void nvs_arena_take_back(const struct nvs_device *device)
{
	struct row row;

	while (find_row(device, NVS_GRANULE_GIVEN, UINT32_MAX, &row))
		let_go(device, &row);
}

void nvs_arena_keep(const struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	for (uint32_t i = 0; i < arena->granules.count; i++)
		if (arena->memory[i] == NVS_GRANULE_GIVEN)
			arena->memory[i] = NVS_GRANULE_HERE;
}
