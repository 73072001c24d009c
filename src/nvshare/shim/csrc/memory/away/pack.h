/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a device's arena that others have as well, in a pack: a memory file that nobody can
 * write any more. The three steps to that are asked for one after the other, while the process
 * sleeps; each but the last leaves memory as it is.
 *
 * Each takes or looks at what the scheduler gave; false: it is not what belongs to the step. `why`
 * the step does not begin; NULL: it does, and NVS_STORE_KEPT is its end, or that of the last one
 * where it let go of nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_device;
struct nvs_file;
struct nvs_wire_sharing;

/* Sums up what the arena has, in the catalogue; it is kept for the other steps. */
bool nvs_pack_sum(struct nvs_device *device, struct nvs_file *catalogue, const char **why);
/* Writes the blocks of the pack to be that the catalogue says. */
bool nvs_pack_write(struct nvs_device *device, struct nvs_file *pack, const char **why);
/*
 * Lets go of what is equal to the block of the pack that the catalogue says; the end is
 * NVS_STORE_GONE where that is anything.
 */
bool nvs_pack_dedup(struct nvs_device *device, struct nvs_file *pack, const char **why);

/* How many entries the catalogue has, after nvs_pack_sum. */
uint32_t nvs_pack_count(const struct nvs_device *device);
/* What is away, as DEDUPED says it; false: not in a pack. */
bool nvs_pack_tells(const struct nvs_device *device, struct nvs_wire_sharing *sharing);
/* What is under way with the arena, or away of it, is so with a pack. */
bool nvs_pack_has(const struct nvs_device *device);
/* No step follows, so the catalogue is not needed any more. */
void nvs_pack_forget(struct nvs_device *device);
