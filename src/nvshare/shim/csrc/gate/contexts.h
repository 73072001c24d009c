/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contexts of this process, with their devices: what a drain must synchronize.
 */
#ifndef NVSHARE_CONTEXTS_H
#define NVSHARE_CONTEXTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

struct nvs_device;

/* A context exists. Primary ones stay known for good: they come and go at the same address. */
void nvs_context_created(CUcontext context, int ordinal, bool primary);
/*
 * Before a context is destroyed: waits until nobody synchronizes it. If that fails, it must be
 * reported as created again.
 */
void nvs_context_ending(CUcontext context);
/* Before a primary context may end, and after it. */
void nvs_context_primary_ending(int ordinal);
void nvs_context_primary_ended(int ordinal);
/* The ordinal of a context's device; -1: not known. Without a lock. */
int nvs_context_ordinal(CUcontext context);
/* The primary context of a device, if it was ever seen. */
CUcontext nvs_context_primary(int ordinal);
/* Grows whenever a context ends: its streams and events are gone with it. */
uint32_t nvs_context_generation(void);

enum nvs_completion {
	NVS_COMPLETION_DONE = 0,
	NVS_COMPLETION_RUNS = 1,
	NVS_COMPLETION_UNKNOWN = 2 /* a context may have ended meanwhile: record again */
};

/*
 * Marks the end of all that was submitted to the device so far. No capture may be going on: the
 * driver would end it. A driver older than 555 has no events of a whole context; there this waits
 * until all has completed.
 */
void nvs_contexts_record(const struct nvs_device *device);
/*
 * Whether what was marked has completed, for a thread in relaxed capture mode; a capture may be
 * going on.
 */
enum nvs_completion nvs_contexts_query(const struct nvs_device *device);
/*
 * Waits until all contexts of the device have completed what was submitted. No capture may be going
 * on.
 */
void nvs_contexts_synchronize(const struct nvs_device *device);
/* In a forked child. */
void nvs_contexts_forked(void);

#endif
