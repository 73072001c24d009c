/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pacing, pure: see pace.h. A structure belongs to one thread, so nothing here is locked.
 *
 * The window begins small and doubles as long as the estimate allows: up to FREE_WINDOW by itself,
 * beyond it only when the program filled it, so that a program with short kernels that turns to
 * long ones has not much queued. The estimate is the largest time per submission seen lately. While
 * events were outstanding all the time it is exact; when everything had completed, the device may
 * have been idle, and the time seen is only an upper bound.
 */
#include "gate/pace.h"

#define BACKLOG_NS 500000000u /* what may be queued */
#define FIRST_WINDOW 8u	      /* 100 ms each: 0.8 s before anything is known */
#define LEAST_WINDOW 2u	      /* one runs, one is queued */
#define FREE_WINDOW \
	256u /* more than a training step of a small model launches ahead of the device */
#define MOST_WINDOW 1024u /* the driver itself blocks at about this number */
#define MOST_INTERVAL 32u /* while something is outstanding */
/*
 * While the device keeps up: an event and its query cost 1.4 us (H200), 1 % of the shortest
 * launches.
 */
#define EASY_INTERVAL 64u

static uint32_t clamp(uint64_t value, uint32_t least, uint32_t most)
{
	if (value < least)
		return least;
	return value > most ? most : (uint32_t)value;
}

static void set_window(struct nvs_pace *pace, uint32_t window)
{
	pace->window = window;
	pace->interval = pace->keeping_up && window >= FREE_WINDOW
				 ? EASY_INTERVAL
				 : clamp(window / 4, 1, MOST_INTERVAL);
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

/*
 * `idle`: the device may have been idle for some of the time, so that the sample is an upper bound.
 */
static void learn(struct nvs_pace *pace, uint64_t sample_ns, bool idle)
{
	uint64_t faded = pace->estimate_ns - pace->estimate_ns / 8;
	uint64_t estimate = sample_ns > faded ? sample_ns : faded;

	if (!idle || estimate < pace->estimate_ns)
		pace->estimate_ns = estimate;
}

static uint32_t window_for(uint64_t submission_ns)
{
	return clamp(BACKLOG_NS / (submission_ns ? submission_ns : 1), LEAST_WINDOW, MOST_WINDOW);
}

/*
 * An upper bound forbids growth. A mere pause of the program may be its reason, so it halves the
 * window at most, which leaves room for what was submitted at the old pace, and leaves the first
 * window in any case.
 */
static uint32_t allowed_window(const struct nvs_pace *pace, uint64_t sample_ns, bool idle)
{
	uint32_t allowed = window_for(pace->estimate_ns), bound = window_for(sample_ns),
		 least = pace->window / 2;

	if (!idle)
		return allowed;
	if (least < FIRST_WINDOW)
		least = FIRST_WINDOW;
	return clamp(bound > least ? bound : least, 0, allowed);
}

static uint32_t grown(const struct nvs_pace *pace, uint32_t allowed, bool filled)
{
	if (allowed <= pace->window)
		return allowed;
	return pace->window < FREE_WINDOW || filled ? clamp(allowed, 0, 2 * pace->window)
						    : pace->window;
}

void nvs_pace_completed(struct nvs_pace *pace, uint32_t events, uint64_t now)
{
	bool filled = nvs_pace_holds(pace), idle;
	uint32_t submissions;
	uint64_t sample;

	if (pace->window == 0) {
		set_window(pace, FIRST_WINDOW);
		pace->progress_ns = now;
	}
	submissions = pop_batches(pace, events);
	pace->keeping_up = pace->events == 0;
	set_window(pace, pace->window);
	if (submissions == 0)
		return;
	sample = (now - pace->progress_ns) / submissions;
	idle = pace->events == 0;
	learn(pace, sample, idle);
	set_window(pace, grown(pace, allowed_window(pace, sample, idle), filled));
	pace->progress_ns = now;
	pace->blind = false;
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

	if (pace->blind || pace->events == 0 || (pace->keeping_up && pace->events == 1))
		return false;
	return ahead + pace->interval > pace->window || !nvs_pace_has_room(pace);
}

void nvs_pace_give_up(struct nvs_pace *pace)
{
	pace->blind = true;
}

/* While no time was seen, the window is what is known: so many submissions take BACKLOG_NS at most.
 */
uint64_t nvs_pace_ahead_ns(const struct nvs_pace *pace)
{
	uint32_t ahead = pace->outstanding + pace->since_record + 1;
	uint32_t window = pace->window ? pace->window : FIRST_WINDOW;

	return ahead * (pace->estimate_ns ? pace->estimate_ns : BACKLOG_NS / window);
}
