/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's side of pacing: the events that show how far the work of one thread on one device
 * has come, for each of the streams that the thread uses.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "gate/marks.h"
#include "gate/pace.h"

struct nvs_context;
struct nvs_device;

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
	struct nvs_paced_stream *current; /* what the thread submitted to last; NULL: nothing */
	uint64_t counted;		  /* of the thread's submissions to the device */
	uint32_t uses;
	struct nvs_paced_stream streams[NVS_PACING_STREAMS];
};

/* The thread's `submissions`th submission to the device succeeded: is nvs_pacing_look due? */
static inline bool nvs_pacing_due(const struct nvs_mark_device *own, uint64_t submissions,
				  const void *stream)
{
	return submissions >= own->look_at || own->stream != stream;
}

/*
 * Sees which events have completed, records another one behind the submission, and holds the thread
 * back while too much is outstanding. Does nothing while a capture is going on in this process.
 */
void nvs_pacing_look(struct nvs_mark *mark, struct nvs_device *device, void *stream);
/* What the calling thread's next submission to the device should cost, by what was seen so far. */
struct nvs_pacing_cost {
	uint64_t submission_ns; /* it alone */
	uint64_t ahead_ns;	/* with all that the thread has outstanding */
};

struct nvs_pacing_cost nvs_pacing_cost(const struct nvs_mark *mark,
				       const struct nvs_device *device);
