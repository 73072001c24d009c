/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena of a device: host memory that the scheduler gives, to copy chunks into. It comes in
 * segments, which are mapped at once and registered with the driver piece by piece, so that copies
 * go at the link's full speed. Chunks get granules of it and keep them when they are back, until
 * another one needs them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_chunk;
struct nvs_device;

/*
 * A segment came; the descriptor stays the caller's. False: it is none of that size. One that can't
 * be mapped is logged and forgotten.
 */
bool nvs_arena_add(struct nvs_device *device, int descriptor, uint64_t bytes);

/* For the mover, with a context of the device current where the driver is called. */

/* There is something to register. */
bool nvs_arena_unregistered(const struct nvs_device *device);
/* Registers the next piece; false: there is none, or the driver does not register any more. */
bool nvs_arena_register(struct nvs_device *device);
/* The context in which pieces were registered may have ended: they are registered again. */
void nvs_arena_register_again(struct nvs_device *device);
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

/* In a forked child, which has none of the mappings. */
void nvs_arenas_forked(void);
