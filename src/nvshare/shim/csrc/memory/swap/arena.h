/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena of a device: host memory that the scheduler gives, to copy chunks into. It comes in
 * segments, which are mapped at once and registered with the driver (pieces.h). Chunks get granules
 * of it and keep them when they are back, until another one needs them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_chunk;
struct nvs_device;
struct nvs_file;

/* Whether it is memory of that size, as one segment or a part of several. */
bool nvs_arena_is_segment(int descriptor, uint64_t bytes);
/* A segment came; the descriptor stays the caller's. False: it can't be mapped now. */
bool nvs_arena_add(struct nvs_device *device, int descriptor, uint64_t bytes);
/*
 * Then the mover is to try again, and the file is the arena's until it is mapped; false: nothing
 * can be noted, and the file stays the caller's. That it waits is said.
 */
bool nvs_arena_put_off(struct nvs_device *device, struct nvs_file *file, uint64_t bytes);
/* There are segments that were put off. */
bool nvs_arena_waits(const struct nvs_device *device);

/* For the mover. */

/*
 * Adds one that was put off, or gives up one that the program has closed; false: there is none that
 * can be mapped now.
 */
bool nvs_arena_add_late(struct nvs_device *device);

/* How many bytes new copies may have. */
uint64_t nvs_arena_room(const struct nvs_device *device);
/* Granules for a chunk that has none, or its own; it needs them until nvs_arena_spare. */
bool nvs_arena_hold(struct nvs_chunk *chunk);
/* The chunk is on the device: another one may have its granules, and it has no host copy then. */
void nvs_arena_spare(struct nvs_chunk *chunk);
/* Where the chunk's copy is from an offset on; `bytes`: for how long without a break. */
void *nvs_arena_place(const struct nvs_chunk *chunk, uint64_t offset, uint64_t *bytes);
/* The chunk ends, or needs no copy: its granules are nobody's. Any thread. */
void nvs_arena_give(struct nvs_chunk *chunk);

/*
 * For the store (store.h), behind the closed door: nobody else uses the arena meanwhile. What lets
 * go of its memory and puts it back is in arena_away.h.
 */

/* All of it, mapped or not. */
uint64_t nvs_arena_bytes(const struct nvs_device *device);
/* A granule that holds the only copy of something. */
struct nvs_content {
	char *place;
	uint32_t granule; /* its number */
};
/*
 * All of these, in the arena's order; host copies of what is on the device as well are given up.
 * False: no memory for the list, which is the caller's to free.
 */
bool nvs_arena_contents(const struct nvs_device *device, struct nvs_content **list,
			uint32_t *count);

/* In a forked child, which has none of the mappings. */
void nvs_arenas_forked(void);
