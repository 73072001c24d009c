/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's side of pacing: the events that show how far the work of one thread on one device
 * has come, for each of the streams that the thread uses.
 */
#ifndef NVSHARE_PACING_H
#define NVSHARE_PACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "gate/pace.h"

struct nvs_context;
struct nvs_device;
struct nvs_mark;

#define NVS_PACING_STREAMS 16

/* One stream of one thread. */
struct nvs_paced_stream {
	void *stream;
	uint32_t used; /* the higher the later; 0: the record is free */
	struct nvs_pace pace;
	CUcontext handle;		   /* of the events' context; NULL: there are none */
	const struct nvs_context *context; /* its record */
	uint32_t life;			   /* of the context, when the events were made */
	CUevent events[NVS_PACE_EVENTS];   /* NULL: not yet made */
};

/* Belongs to one thread at a time. */
struct nvs_pacing {
	struct nvs_paced_stream *current; /* what the thread submitted to last */
	uint32_t uses;
	struct nvs_paced_stream streams[NVS_PACING_STREAMS];
};

/* A submission succeeded; true: nvs_pacing_look is due, and counts it in that case. */
static inline bool nvs_pacing_due(struct nvs_pacing *pacing, void *stream)
{
	return !pacing || pacing->current->stream != stream ||
	       nvs_pace_submitted(&pacing->current->pace);
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
