/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that can't be mapped when they come. No state beside the arena's record, whose lock is
 * held while one is mapped.
 */
#include <stdlib.h>

#include "gate/device.h"
#include "memory/swap/arena.h"
#include "memory/swap/arena_record.h"
#include "memory/swap/chunk.h"
#include "process/notices.h"

bool nvs_arena_put_off(struct nvs_device *device, struct nvs_file *file, uint64_t bytes)
{
	struct nvs_late_segment *late = malloc(sizeof(*late));
	struct nvs_arena *arena;

	if (!late)
		return false;
	arena = nvs_arena_lock(device);
	nvs_files_lock();
	*late = (struct nvs_late_segment){ .next = arena->late, .file = *file, .bytes = bytes };
	*file = NVS_NO_FILE;
	arena->late = late;
	arena->received += bytes / NVS_GRANULE_BYTES;
	nvs_files_unlock();
	nvs_arena_unlock(&arena);
	nvs_notice(NVS_NOTICE_UNMAPPED);
	nvs_arena_tell_room(device);
	return true;
}

bool nvs_arena_waits(const struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	return arena->late != NULL;
}

/* With the lock held: the first of these is none of them any more. */
static void end_late(struct nvs_late_segment **place)
{
	struct nvs_late_segment *late = *place;

	nvs_files_lock();
	*place = late->next;
	nvs_file_close(&late->file);
	nvs_files_unlock();
	free(late);
}

bool nvs_arena_add_late(struct nvs_device *device)
{
	struct nvs_arena *arena = nvs_arena_lock(device);
	struct nvs_late_segment **place = &arena->late;
	bool ended = false;

	while (*place && !ended) {
		const struct nvs_file *file = &(*place)->file;
		uint64_t bytes = (*place)->bytes;
		bool lost = nvs_file_lost(file);

		ended = lost || nvs_arena_map(arena, nvs_file_number(file), bytes);
		if (lost) { /* as one that was used and went back */
			arena->offered += bytes / NVS_GRANULE_BYTES;
			arena->returned += bytes / NVS_GRANULE_BYTES;
		}
		if (ended)
			end_late(place);
		else
			place = &(*place)->next;
	}
	nvs_arena_unlock(&arena);
	if (ended)
		nvs_arena_tell_room(device);
	return ended;
}
