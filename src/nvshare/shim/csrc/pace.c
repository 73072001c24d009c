/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pacing, pure: see pace.h. A structure belongs to one thread, so nothing here is locked.
 *
 * The window begins small and doubles as long as the estimate allows: up to FREE_WINDOW by itself, beyond it only when the
 * program filled it, so that a program with short kernels that turns to long ones has not much queued. The estimate is the
 * largest time per submission seen lately. While events were outstanding all the time it is exact; when everything
 * had completed, the device may have been idle, and the time seen is only an upper bound.
 */
#include "pace.h"

#define BACKLOG_NS 500000000u /* what may be queued */
#define FIRST_WINDOW 8u       /* 100 ms each: 0.8 s before anything is known */
#define LEAST_WINDOW 2u       /* one runs, one is queued */
#define FREE_WINDOW 128u
#define MOST_WINDOW 1024u     /* the driver itself blocks at about so many */
#define MOST_INTERVAL 32u     /* an event and its query cost 0.2 us: 0.3 % of so many launches */

static uint32_t clamp(uint64_t value, uint32_t least, uint32_t most)
{
	if (value < least)
		return least;
	return value > most ? most : (uint32_t)value;
}

static void set_window(struct nvs_pace *pace, uint32_t window)
{
	pace->window = window;
	pace->interval = clamp(window / 4, 1, MOST_INTERVAL);
}

static uint32_t pop_batches(struct nvs_pace *pace, uint32_t events)
{
	uint32_t submissions = 0;

	for (; events && pace->events; events--, pace->events--) {
		submissions += pace->batches[pace->oldest];
		pace->oldest = (pace->oldest + 1) % NVS_PACE_EVENTS;
	}
	pace->outstanding -= submissions;
	return submissions;
}

static void learn(struct nvs_pace *pace, uint64_t sample_ns)
{
	uint64_t faded = pace->estimate_ns - pace->estimate_ns / 8;
	uint64_t estimate = sample_ns > faded ? sample_ns : faded;
	bool upper_bound = pace->events == 0;

	if (upper_bound && pace->estimate_ns && estimate > pace->estimate_ns)
		return;
	pace->estimate_ns = estimate ? estimate : 1;
}

void nvs_pace_completed(struct nvs_pace *pace, uint32_t events, uint64_t now)
{
	bool filled = nvs_pace_holds(pace);
	uint32_t submissions, allowed;

	if (pace->window == 0) {
		set_window(pace, FIRST_WINDOW);
		pace->progress_ns = now;
	}
	submissions = pop_batches(pace, events);
	if (submissions == 0)
		return;
	learn(pace, (now - pace->progress_ns) / submissions);
	pace->progress_ns = now;
	pace->blind = false;

	allowed = clamp(BACKLOG_NS / pace->estimate_ns, LEAST_WINDOW, MOST_WINDOW);
	if (allowed > pace->window && (pace->window < FREE_WINDOW || filled))
		allowed = clamp(allowed, 0, 2 * pace->window);
	else if (allowed > pace->window)
		allowed = pace->window;
	set_window(pace, allowed);
}

bool nvs_pace_has_room(const struct nvs_pace *pace)
{
	return pace->events < NVS_PACE_EVENTS;
}

void nvs_pace_recorded(struct nvs_pace *pace)
{
	pace->batches[(pace->oldest + pace->events) % NVS_PACE_EVENTS] = pace->since_record;
	pace->events++;
	pace->outstanding += pace->since_record;
	pace->since_record = 0;
}

bool nvs_pace_holds(const struct nvs_pace *pace)
{
	uint32_t ahead = pace->outstanding + pace->since_record;

	if (pace->blind || pace->events == 0)
		return false;
	return ahead + pace->interval > pace->window || !nvs_pace_has_room(pace);
}

void nvs_pace_give_up(struct nvs_pace *pace)
{
	pace->blind = true;
}
