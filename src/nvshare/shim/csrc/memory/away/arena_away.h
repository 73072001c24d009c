/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena without some of its memory, or all of it, while the process sleeps behind the closed
 * door: nobody else uses it meanwhile. Addresses, granules and whose they are stay; behind those
 * that are away there is nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_device;

/* How many segments it has. */
uint32_t nvs_arena_segments(const struct nvs_device *device);
/* All of a segment is away; any thread. */
void nvs_arena_let_go(const struct nvs_device *device, uint32_t segment);
/* A granule is away, and its memory is free; false: that is not possible. Any thread. */
bool nvs_arena_let_go_granule(const struct nvs_device *device, uint32_t granule);
/* How much of it is away. */
uint64_t nvs_arena_away_bytes(const struct nvs_device *device);
bool nvs_arena_is_away(const struct nvs_device *device, uint32_t granule);
/*
 * Memory for the first granules that are away, of which there are as many; they are not any more.
 * False: some of it can't be mapped, and nothing is there.
 */
bool nvs_arena_put_back(const struct nvs_device *device, int descriptor, uint64_t bytes);
/* What was put back since the last call of this or the next one is away again. */
void nvs_arena_take_back(const struct nvs_device *device);
/* It has what belongs there, and stays. */
void nvs_arena_keep(const struct nvs_device *device);
