/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pacing, pure: see pace.h. A structure belongs to one thread, so nothing here is locked.
 *
 * The window begins small and doubles as long as the estimate allows: up to a certain size by
 * itself, beyond it only when the program filled it, so that a program with short kernels that
 * turns to long ones has not much queued. The estimate is the largest time per submission seen
 * lately. While events were outstanding all the time it is exact (with other streams and threads on
 * the device it is this stream's share, which is what a drain has to wait for); when everything had
 * completed, the device may have been idle, and the time seen is only an upper bound.
 *
 * When nothing completes for several times the estimate, either the kernels have become longer, or
 * they wait for something that the host has yet to do, and to hold the thread would be wrong. No
 * call tells the two apart, but what follows does: work that waited for the host completes all at
 * once, long kernels one after the other. So a hold is given up after a while. As much as the first
 * window may then be submitted, twice as much after the next hold, and so on; and what completes
 * then decides how long such a hold is in the future. What may be queued because of that: nothing
 * more when kernels take up to PATIENCE_NS each; 2^n times the first window for a program that
 * begins with kernels of n times PATIENCE_NS, until two of them have completed; and as much as the
 * driver takes when the device kept up and the kernels suddenly turn ten thousand times longer.
 */
#include "gate/pace.h"

#define ALONE_WINDOW_NS 500000000u    /* what may be queued */
#define CONTENDED_WINDOW_NS 50000000u /* and while somebody waits */
#define PATIENCE_NS 200000000u	      /* of a hold, unless the estimate asks for more */
#define LEAST_PATIENCE_NS 1000000u
#define MOST_PATIENCE_NS 8000000000u
#define FIRST_WINDOW 8u /* 100 ms each: 0.8 s before anything is known */
#define LEAST_WINDOW 2u /* one runs, one is queued */
/*
 * More than a training step of a small model launches ahead of the device: a program that is not
 * held by it is not held at all.
 */
#define FREE_WINDOW 512u
#define CONTENDED_FREE_WINDOW 128u
#define MOST_WINDOW 1024u /* the driver itself blocks at about this number */
/*
 * Of a gang's member: others may have to submit as much before all can leave, at the pace of a
 * program that launches step by step, some 30 us each.
 */
#define GANG_WINDOW 256u
#define MOST_INTERVAL 64u /* of a device that does not keep up */

static uint32_t most_window(const struct nvs_pace *pace)
{
	return pace->in_gang && pace->contended ? GANG_WINDOW : MOST_WINDOW;
}

static uint32_t clamp(uint64_t value, uint32_t least, uint32_t most)
{
	if (value < least)
		return least;
	return value > most ? most : (uint32_t)value;
}

static uint64_t most_ns(const struct nvs_pace *pace)
{
	return pace->contended ? CONTENDED_WINDOW_NS : ALONE_WINDOW_NS;
}

static uint32_t first_window(const struct nvs_pace *pace)
{
	return pace->contended ? LEAST_WINDOW : FIRST_WINDOW;
}

static uint32_t free_window(const struct nvs_pace *pace)
{
	return pace->contended ? CONTENDED_FREE_WINDOW : FREE_WINDOW;
}

/*
 * While the device keeps up, an event is what pacing costs (in the processor and, between two short
 * kernels, on the device): half a window may pass without one.
 */
static void set_window(struct nvs_pace *pace, uint32_t window)
{
	pace->window = window;
	pace->interval = pace->keeping_up && window >= free_window(pace)
				 ? free_window(pace) / 2
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
	/* The same event again and again, which the processor's caches have. */
	if (pace->events == 0)
		pace->oldest = 0;
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

static uint32_t window_for(const struct nvs_pace *pace, uint64_t submission_ns)
{
	return clamp(most_ns(pace) / (submission_ns ? submission_ns : 1), LEAST_WINDOW,
		     most_window(pace));
}

/*
 * An upper bound forbids growth. A mere pause of the program may be its reason, so it halves the
 * window at most, which leaves room for what was submitted at the old pace, and leaves the first
 * window in any case.
 */
static uint32_t allowed_window(const struct nvs_pace *pace, uint64_t sample_ns, bool idle)
{
	uint32_t allowed = window_for(pace, pace->estimate_ns), bound = window_for(pace, sample_ns),
		 least = pace->window / 2;

	if (!idle)
		return allowed;
	if (least < first_window(pace))
		least = first_window(pace);
	return clamp(bound > least ? bound : least, 0, allowed);
}

static uint32_t grown(const struct nvs_pace *pace, uint32_t allowed, bool filled)
{
	uint32_t window = pace->window;

	if (pace->keeping_up && window > free_window(pace))
		window = free_window(pace);
	if (allowed <= window)
		return allowed;
	return window < free_window(pace) || filled ? clamp(allowed, 0, 2 * window) : window;
}

static uint64_t usual_patience(const struct nvs_pace *pace)
{
	return pace->patience_ns ? pace->patience_ns : PATIENCE_NS;
}

/* A hold was given up for the right reason: the next one may be shorter. */
static void waited_for_host(struct nvs_pace *pace)
{
	uint64_t patience = usual_patience(pace) / 8;

	pace->patience_ns = patience < LEAST_PATIENCE_NS ? LEAST_PATIENCE_NS : patience;
}

/*
 * True: the time that the batch took is the device's doing. `together`: it was not alone in
 * completing.
 */
static bool is_device_time(struct nvs_pace *pace, uint64_t elapsed_ns, bool together)
{
	uint64_t slow = pace->slow_ns;

	pace->slow_ns = 0;
	if (pace->blind) {
		pace->blind = false;
		if (together)
			waited_for_host(pace);
		else
			pace->slow_ns = elapsed_ns;
		return false;
	}
	if (slow && elapsed_ns < slow / 4)
		waited_for_host(pace);
	else if (slow)
		pace->patience_ns = 0;
	return true;
}

bool nvs_pace_submitted(struct nvs_pace *pace, uint32_t submissions)
{
	pace->since_record += submissions;
	return pace->since_record >= pace->interval;
}

uint32_t nvs_pace_until_look(const struct nvs_pace *pace)
{
	return pace->since_record < pace->interval ? pace->interval - pace->since_record : 1;
}

void nvs_pace_contended(struct nvs_pace *pace, bool contended, bool in_gang)
{
	if (pace->contended == contended && pace->in_gang == in_gang)
		return;
	pace->contended = contended;
	pace->in_gang = in_gang;
	if (pace->window)
		set_window(pace, clamp(pace->window, 0,
				       pace->estimate_ns ? window_for(pace, pace->estimate_ns)
							 : first_window(pace)));
}

void nvs_pace_completed(struct nvs_pace *pace, uint32_t events, uint64_t now)
{
	bool filled = nvs_pace_holds(pace), idle;
	uint64_t elapsed;
	uint32_t submissions;

	if (pace->window == 0) {
		set_window(pace, first_window(pace));
		pace->progress_ns = now;
	}
	submissions = pop_batches(pace, events);
	pace->keeping_up = pace->events == 0;
	if (!pace->blind || submissions)
		set_window(pace, pace->window);
	if (submissions == 0)
		return;
	elapsed = now - pace->progress_ns;
	pace->progress_ns = now;
	idle = pace->events == 0;
	if (!is_device_time(pace, elapsed, idle || events > 1))
		return;
	learn(pace, elapsed / submissions, idle);
	set_window(pace, grown(pace, allowed_window(pace, elapsed / submissions, idle), filled));
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
	uint32_t ahead = pace->outstanding + pace->since_record + pace->interval;

	if (pace->events == 0 || (pace->keeping_up && pace->events == 1))
		return false;
	if (pace->blind)
		return ahead > pace->allowance;
	return ahead > pace->window || !nvs_pace_has_room(pace);
}

bool nvs_pace_is_least(const struct nvs_pace *pace)
{
	return pace->contended && !pace->blind && pace->window == LEAST_WINDOW;
}

uint64_t nvs_pace_patience(const struct nvs_pace *pace)
{
	uint64_t patience = 4 * pace->estimate_ns * pace->batches[pace->oldest];

	if (patience < usual_patience(pace))
		patience = usual_patience(pace);
	if (patience < 2 * pace->slow_ns)
		patience = 2 * pace->slow_ns;
	return patience < MOST_PATIENCE_NS ? patience : MOST_PATIENCE_NS;
}

void nvs_pace_give_up(struct nvs_pace *pace)
{
	uint32_t ahead = pace->outstanding + pace->since_record;

	/* Where it was right to give up before, more of such holds would only cost time. */
	if (!pace->blind)
		pace->step = pace->patience_ns ? FREE_WINDOW : FIRST_WINDOW;
	else
		pace->step = clamp(2ull * pace->step, 0, MOST_WINDOW);
	pace->blind = true;
	pace->interval = clamp(pace->step / 4, 1, MOST_INTERVAL);
	pace->allowance = ahead + pace->step;
}

/* While no time was seen, the window is what is known: it takes as long as is allowed at most. */
uint64_t nvs_pace_submission_ns(const struct nvs_pace *pace)
{
	uint32_t window = pace->window ? pace->window : first_window(pace);

	return pace->estimate_ns ? pace->estimate_ns : most_ns(pace) / window;
}

uint64_t nvs_pace_ahead_ns(const struct nvs_pace *pace)
{
	uint32_t ahead = pace->outstanding + pace->since_record + 1;

	return ahead * nvs_pace_submission_ns(pace);
}
