/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's side of pacing: the events that show how far the work of one thread on one device
 * has come.
 */
#ifndef NVSHARE_PACING_H
#define NVSHARE_PACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "gate/pace.h"

struct nvs_device;
struct nvs_mark;

/* Belongs to one thread at a time. */
struct nvs_pacing {
	struct nvs_pace pace;
	CUcontext context;		 /* of the events */
	uint32_t generation;		 /* of contexts, when the events were made */
	CUevent events[NVS_PACE_EVENTS]; /* NULL: not yet made */
};

/* A submission succeeded; true: nvs_pacing_look is due. */
static inline bool nvs_pacing_due(struct nvs_pacing *pacing)
{
	return !pacing || nvs_pace_submitted(&pacing->pace);
}

/*
 * Sees which events have completed, records another one behind the submission, and holds the thread
 * back while too much is outstanding. Does nothing while a capture is going on in this process.
 */
void nvs_pacing_look(struct nvs_mark *mark, struct nvs_device *device, void *stream);
/* How long the calling thread's outstanding work on the device and one more submission should take.
 */
uint64_t nvs_pacing_ahead_ns(const struct nvs_mark *mark, const struct nvs_device *device);

#endif
