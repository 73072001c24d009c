/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pacing: bounds, in time, how much submitted work of one thread on one device may be outstanding, so that a drain ends soon
 * (kernels under 100 ms: about one second), while a program whose launches are the bottleneck is never held back.
 *
 * Pure: no lock, no clock, no driver call. A structure filled with zeros is a fresh one; it belongs to one thread. Times are
 * nanoseconds of any monotonic clock. How a submission uses it, after the real call succeeded:
 *
 *	if (nvs_pace_submitted(pace)) {                      most calls end here
 *		query the events from the oldest on; n of them have completed:
 *		nvs_pace_completed(pace, n, now);                also with n == 0
 *		record an event behind the submission:
 *		nvs_pace_recorded(pace, now);
 *		while (nvs_pace_holds(pace)) {
 *			wait until the oldest event completes, for NVS_PACE_HOLD_LIMIT_NS at most;
 *			completed: nvs_pace_completed(pace, 1, now);
 *			not, or the gate is closing: nvs_pace_give_up(pace);
 *		}
 *	}
 *
 * The caller keeps the events in a ring of NVS_PACE_EVENTS in the order in which they were recorded; their number in use is
 * nvs_pace_events(). nvs_pace_holds() is true at the latest when the ring is full; nvs_pace_give_up() then makes room by
 * merging the newest event into the one before: the caller drops its newest event when nvs_pace_give_up() returns true.
 */
#ifndef NVSHARE_PACE_H
#define NVSHARE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* cdef begin */
#define NVS_PACE_EVENTS 64
#define NVS_PACE_HOLD_LIMIT_NS 1000000000

/* What happened between two recorded events. */
struct nvs_pace_batch {
	uint64_t recorded_ns;   /* when the event at its end was recorded */
	uint32_t submissions;
};

struct nvs_pace {
	uint32_t since_record;  /* submissions since the newest event */
	uint32_t interval;      /* submissions between two events */
	uint32_t window;        /* submissions that may be outstanding; 0: fresh */
	uint32_t outstanding;   /* submissions up to the newest event that are not known to have completed */
	uint32_t oldest;        /* index of the oldest event in batches[] */
	uint32_t events;        /* events not known to have completed */
	uint64_t estimate_ns;   /* time per submission: the most that was seen lately; 0: unknown */
	uint64_t progress_ns;   /* when the last completion was seen, or the last event before it recorded */
	bool blind;             /* a hold was given up: hold no more until something completes */
	struct nvs_pace_batch batches[NVS_PACE_EVENTS];
};

/* So many of the oldest events have completed, as seen at `now`. */
void nvs_pace_completed(struct nvs_pace *pace, uint32_t events, uint64_t now);
/* An event was recorded behind all submissions so far. */
void nvs_pace_recorded(struct nvs_pace *pace, uint64_t now);
/* The thread should wait for the oldest event before it submits more. */
bool nvs_pace_holds(const struct nvs_pace *pace);
/* The thread can't or may not wait now; true: the newest event is to be dropped, the ring was full. */
bool nvs_pace_give_up(struct nvs_pace *pace);
/* cdef end */

/* One more submission; true: time to look at the events and to record one. */
static inline bool nvs_pace_submitted(struct nvs_pace *pace)
{
	return ++pace->since_record >= pace->interval;
}

static inline uint32_t nvs_pace_events(const struct nvs_pace *pace)
{
	return pace->events;
}

#endif
