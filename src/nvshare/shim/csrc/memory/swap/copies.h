/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of chunks between the device and the arena, several at once. A copy needs a context. Any
 * of the device's will do, since chunks belong to none; it is pinned meanwhile, so that nobody ends
 * it, and for no longer. The streams and events stay until it ends. For the mover of the device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "memory/swap/contents.h"

struct nvs_chunk;
struct nvs_context;
struct nvs_device;

#define NVS_COPIES NVS_CONTENTS /* at once: enough for the link never to be idle */

struct nvs_copies {
	struct nvs_context *pinned; /* between begin and end */
	/* Of the context of that entry in that life; NULL: none were made. */
	struct nvs_context *made_in;
	uint32_t life;
	CUstream out, in;
	CUevent events[NVS_COPIES];
	struct nvs_contents contents; /* their events are the same ones */
};

/* A context is current from here on; false: there is none. */
bool nvs_copies_begin(struct nvs_copies *copies, struct nvs_device *device);
void nvs_copies_end(struct nvs_copies *copies);
/*
 * Submits the copy of a chunk to its granules, or back, or its zeros; the event of `slot` is behind
 * it. An error: nothing of it runs any more.
 */
CUresult nvs_copies_submit(struct nvs_copies *copies, struct nvs_chunk *chunk, bool out,
			   unsigned int slot);
/* The same for the hash of a chunk that leaves. */
CUresult nvs_copies_hash(struct nvs_copies *copies, struct nvs_chunk *chunk, unsigned int slot);
/*
 * How the copies of a slot are, out or in: done, CUDA_ERROR_NOT_READY, or an error, and then as
 * above.
 */
CUresult nvs_copies_query(const struct nvs_copies *copies, bool out, unsigned int slot);
