/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pacing: bounds, in time, how much submitted work of one thread on one stream may be outstanding,
 * so that a drain ends soon, while a program whose launches are the bottleneck is never held back.
 * While nobody waits for the device half a second may be queued, otherwise a tenth of it; a kernel
 * that runs and one that is queued behind it are always allowed.
 *
 * Pure: no lock, no clock, no driver call. A structure filled with zeros is a fresh one; it belongs
 * to one thread. Times are nanoseconds of any monotonic clock. How a submission uses it, after the
 * real call succeeded and outside of captures:
 *
 *	if (nvs_pace_submitted(pace, 1)) {                   most calls end here
 *		nvs_pace_contended(pace, somebody else waits for the device, or did so lately,
 *				   others' kernels may wait for those of this device);
 *		query the events from the oldest on, up to the first that has not completed: n have
 *		nvs_pace_completed(pace, n, now);            also with n == 0
 *		if (nvs_pace_has_room(pace)) {
 *			record an event behind the submission
 *			nvs_pace_recorded(pace);
 *		}
 *		while (nvs_pace_holds(pace)) {
 *			wait until the oldest event completes, for nvs_pace_patience(pace) at most
 *			it did: nvs_pace_completed(pace, 1, now);
 *			it did not: nvs_pace_give_up(pace), and submit on
 *		}
 *	}
 *
 * The caller keeps the events themselves, in a ring of NVS_PACE_EVENTS in the order of recording;
 * pace->events are in use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* cdef begin */
#define NVS_PACE_EVENTS 32

struct nvs_pace {
	uint32_t since_record; /* submissions since the newest event */
	uint32_t interval;     /* submissions between two events */
	uint32_t window;       /* submissions that may be outstanding; 0: fresh */
	/* submissions up to the newest event that are not known to have completed */
	uint32_t outstanding;
	uint32_t oldest;      /* index of the oldest event in batches[] */
	uint32_t events;      /* events not known to have completed */
	uint32_t step;	      /* while blind: submissions until the next hold */
	uint32_t allowance;   /* the window while blind */
	uint64_t estimate_ns; /* time per submission: the most that was seen lately; 0: unknown */
	uint64_t progress_ns; /* when a completion was last seen */
	uint64_t patience_ns; /* for a hold that no estimate justifies; 0: the usual one */
	uint64_t slow_ns;     /* what the first completion after a hold was given up had taken */
	bool contended;	      /* the short bound applies */
	bool in_gang;	      /* and it bounds also how many are outstanding */
	bool keeping_up;      /* at the last look all but the newest event had completed */
	bool blind;	      /* a hold was given up, and nothing has completed since */
	uint32_t batches[NVS_PACE_EVENTS]; /* submissions between an event and the one before */
};

/* So many submissions more; true: time to look at the events and to record one. */
bool nvs_pace_submitted(struct nvs_pace *pace, uint32_t submissions);
/* How many more it takes until then, at least 1. */
uint32_t nvs_pace_until_look(const struct nvs_pace *pace);
/*
 * Whether the short bound applies from now on; `in_gang`: what is submitted counts too then, since
 * others may have to submit as much before all can leave.
 */
void nvs_pace_contended(struct nvs_pace *pace, bool contended, bool in_gang);
/* The oldest `events` events have completed, as seen at `now`. */
void nvs_pace_completed(struct nvs_pace *pace, uint32_t events, uint64_t now);
/* Another event can be recorded. */
bool nvs_pace_has_room(const struct nvs_pace *pace);
/* An event was recorded behind all submissions so far. */
void nvs_pace_recorded(struct nvs_pace *pace);
/* The thread should wait for the oldest event before it submits more. */
bool nvs_pace_holds(const struct nvs_pace *pace);
/* Submissions take so long that one runs and one is queued, while somebody waits for the device. */
bool nvs_pace_is_least(const struct nvs_pace *pace);
/* For how long it should wait for the oldest event. */
uint64_t nvs_pace_patience(const struct nvs_pace *pace);
/*
 * The thread waited for so long: what it waits for may need what it submits next. Some more may be
 * submitted before it is asked to wait again.
 */
void nvs_pace_give_up(struct nvs_pace *pace);
/* How long one submission should take, by what was seen so far. */
uint64_t nvs_pace_submission_ns(const struct nvs_pace *pace);
/* How long what is outstanding and one more submission should take. */
uint64_t nvs_pace_ahead_ns(const struct nvs_pace *pace);
/* cdef end */
