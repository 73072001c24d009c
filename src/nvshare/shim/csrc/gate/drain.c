/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the end of a turn: closing a gate, waiting for calls in flight, for captures and for the
 * device's work. Runs in the device's worker and has no state between two calls.
 *
 * Stepping. What was submitted may wait for what the program submits next: a host function wants a
 * mutex that the program holds while it submits, a stream waits for a value that another one is to
 * write, a call in flight waits for room in such a stream's queue. With the gate closed that never
 * ends. So while threads wait at the gate, one submission at a time passes, until all has
 * completed. From outside such work looks like a long kernel, whose drain must not be made longer
 * by what follows it. Pacing knows how long a thread's work should take: a thread may step once
 * its work and the next submission should have completed, so that an ordinary drain ends before its
 * first step (or after two seconds, since work that waited teaches pacing too much); and once twice
 * the time has passed since the last step that the submission should take, so that what the steps
 * add is at most half of what had to be waited for anyway. Neither does it need to know why the
 * work does not complete.
 *
 * If that does not help for long, the gate should open again: the lock is still held, so nothing is
 * wrong with that, and the next attempt finds the program elsewhere. A kernel that simply runs for
 * long is not put off, unless a thread waits to begin a capture, which can't step.
 *
 * The members of a gang stop together, because the work of one may wait for what another one
 * submits: cut.c. Another one may hear that it holds the lock only after this one was told to give
 * it back; what this one submitted may wait for it then, so the drain becomes a cut.
 */
#define _GNU_SOURCE
#include "gate/drain.h"

#include <sched.h>
#include <time.h>

#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/completion.h"
#include "gate/cut.h"
#include "gate/device.h"
#include "gate/gang_page.h"
#include "gate/gate.h"
#include "gate/marks.h"
#include "process/clock.h"
#include "process/ends.h"
#include "process/log.h"

#define MILLISECOND_NS 1000000u
#define LOOKS_AT_ONCE 100 /* a call in flight mostly ends before a sleep would */
#define FIRST_PAUSE_NS 20000u
#define LONGEST_PAUSE_NS MILLISECOND_NS
#define FIRST_STEP_NS (5 * MILLISECOND_NS) /* no step before it: most drains are over by then */
#define OVERDUE_NS (2000ull * MILLISECOND_NS)
#define LEAST_OFFER_NS 10000u
#define MOST_STEPS 1024 /* a stream's queue has not room for more */
#define PUT_OFF_NS 10000000000u

struct drain {
	struct nvs_device *device;
	const struct nvs_gang *gang; /* NULL: of none */
	void (*stepping)(void *argument);
	void *argument;
	bool recorded;	     /* all that passed is in front of the contexts' events */
	unsigned int steps;  /* that were taken */
	uint64_t offered_ns; /* what a step may cost that nobody is known to have taken; 0: none */
	uint64_t closed_at, first_step_at, last_step_at;
};

/* A little longer each time: waiting for long work must cost no processor. */
static void pause_longer(uint64_t *pause)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)*pause }, NULL);
	if (*pause < LONGEST_PAUSE_NS)
		*pause *= 2;
}

static void note_step(struct drain *drain)
{
	/* After the step was seen to be taken: the marks show whose it is. */
	nvs_marks_order();
	drain->recorded = false;
	drain->last_step_at = nvs_now_ns();
	if (drain->steps++)
		return;
	drain->first_step_at = drain->last_step_at;
	nvs_debug("device %d: its work has not completed %llu ms after the gate was closed, and "
		  "threads wait: one submission at a time passes",
		  drain->device->ordinal,
		  (unsigned long long)((drain->last_step_at - drain->closed_at) / MILLISECOND_NS));
	drain->stepping(drain->argument);
}

/* From here on no step is offered; true: one was taken before. */
static bool end_offer(struct drain *drain)
{
	bool taken = drain->offered_ns && !nvs_gate_withdraw_steps(drain->device);

	drain->offered_ns = 0;
	if (taken)
		note_step(drain);
	return taken;
}

/*
 * Offers a step as soon as there may be one, and a more expensive one as time goes by; true: one
 * was taken. Each offer wakes all that wait, so there are few of them.
 */
static bool step(struct drain *drain)
{
	struct nvs_gate *gate = &drain->device->gate;
	uint64_t now = nvs_now_ns(), most = (now - drain->last_step_at) / 2;
	uint64_t overdue = now - drain->closed_at;

	if (drain->offered_ns && !atomic_load(&gate->steps))
		return end_offer(drain);
	if (overdue < FIRST_STEP_NS || drain->steps >= MOST_STEPS || !atomic_load(&gate->waiting) ||
	    atomic_load(&gate->lacks_memory) || most < LEAST_OFFER_NS ||
	    most < drain->offered_ns + drain->offered_ns / 2)
		return false;
	if (end_offer(drain))
		return true;
	drain->offered_ns = most;
	nvs_gate_offer_steps(drain->device, 1, most, overdue < OVERDUE_NS ? overdue : UINT64_MAX);
	return false;
}

/* Everything that passed the gate has completed, and nothing more can pass it. */
static bool is_done(struct drain *drain)
{
	struct nvs_device *device = drain->device;

	/*
	 * Only when no call is in flight is all that passed in the driver's queues, where an event
	 * sees it. Recorded earlier it would miss a call that was on its way, and that would run
	 * beside the next client's work.
	 */
	if (!drain->recorded) {
		if (nvs_marks_set(device))
			return false;
		nvs_contexts_record(device);
		drain->recorded = true;
	}
	switch (nvs_contexts_query(device)) {
	case NVS_COMPLETION_RUNS:
		return false;
	case NVS_COMPLETION_UNKNOWN:
		drain->recorded = false;
		return false;
	default:
		break;
	}
	/*
	 * A call that ends a context may wait in the driver for work that waits for a step; the
	 * synchronization would wait for that call.
	 */
	if (nvs_marks_set(device))
		return false;
	/*
	 * Whoever took a step during the synchronization would be missed. The moment is too short
	 * for a test to show it.
	 */
	if (end_offer(drain))
		return false;
	/*
	 * It waits for nothing now, and covers what has no event. The marks once more, after it: a
	 * call that ends a context takes it out of the list, with work that may still be running,
	 * and says so by its mark alone.
	 */
	nvs_contexts_synchronize(device);
	drain->recorded = !nvs_marks_set(device);
	return drain->recorded;
}

static bool leads_nowhere(const struct drain *drain)
{
	uint64_t now = nvs_now_ns();

	return (drain->steps && now - drain->first_step_at > PUT_OFF_NS) ||
	       (nvs_capture_wanted() && now - drain->closed_at > PUT_OFF_NS);
}

static bool has_others(const struct drain *drain)
{
	return drain->gang && nvs_gang_has_others(drain->gang);
}

enum outcome {
	COMPLETED,
	PUT_OFF,
	HAS_OTHERS
};

static enum outcome complete(struct drain *drain)
{
	uint64_t pause = FIRST_PAUSE_NS;

	for (unsigned int looks = 0;; looks++) {
		if (has_others(drain)) {
			end_offer(drain);
			return HAS_OTHERS;
		}
		if (is_done(drain))
			return COMPLETED;
		if (looks < LOOKS_AT_ONCE && !drain->recorded) {
			sched_yield();
			continue;
		}
		if (leads_nowhere(drain)) {
			end_offer(drain);
			return PUT_OFF;
		}
		if (step(drain))
			pause = FIRST_PAUSE_NS;
		pause_longer(&pause);
	}
}

/*
 * For as long as a capture goes on somewhere, the driver lets only threads in relaxed mode ask
 * about events, and would end the capture otherwise. Answers the mode before.
 */
static CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode)
{
	NVS_CALL(cuThreadExchangeStreamCaptureMode, &mode);
	return mode;
}

bool nvs_gate_drain(struct nvs_device *device, void (*stepping)(void *argument), void *argument)
{
	struct drain drain = { .device = device, .stepping = stepping, .argument = argument };
	enum outcome outcome;
	CUstreamCaptureMode mode = exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
	struct nvs_gang *gang;
	NVS_KEEP_ERRNO;
	bool completed;

	/*
	 * First no capture may be going on: the driver ends a capture with an error when anybody
	 * synchronizes. As long as one is, the gate lets everything pass, because the capturing
	 * thread may wait for the work of other threads; nothing is wrong with that, for the lock
	 * is still held. A program that captures for long makes its own drain long.
	 *
	 * Announced before the gate is closing: a thread that then finds no capture sleeps at the
	 * gate, and nobody would wake it for one that began afterwards and needs its work.
	 */
	nvs_capture_announce();
	atomic_store(&device->gate.state, NVS_GATE_CLOSING);
	nvs_capture_forbid();
	/*
	 * Closed before the marks are looked at: a thread that sets its mark after the look finds
	 * the gate closed (marks.c).
	 */
	atomic_store(&device->gate.state, NVS_GATE_CLOSED);
	nvs_marks_order();
	drain.closed_at = drain.last_step_at = nvs_now_ns();
	gang = nvs_gang_begin(device);
	drain.gang = gang;
	outcome = complete(&drain);
	completed = outcome == COMPLETED;
	if (outcome == HAS_OTHERS)
		completed = nvs_cut(device, gang, stepping, argument);
	nvs_gang_end(device, completed);
	nvs_capture_allow();
	exchange_mode(mode);
	if (!completed)
		nvs_debug("device %d: the drain led nowhere: it is put off", device->ordinal);
	return completed;
}

bool nvs_gate_wait_idle(struct nvs_device *device, uint64_t submissions,
			const _Atomic unsigned int *stop)
{
	CUstreamCaptureMode mode = exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
	enum nvs_completion completion = NVS_COMPLETION_UNKNOWN;
	uint64_t pause = FIRST_PAUSE_NS;
	NVS_KEEP_ERRNO;

	/* Not waiting for captures' ends: a program that captures is not idle. */
	if (nvs_capture_try_forbid()) {
		nvs_contexts_record(device);
		nvs_capture_allow();
		completion = nvs_contexts_query(device);
	}
	while (completion == NVS_COMPLETION_RUNS && !atomic_load(stop) &&
	       nvs_marks_submissions(device) == submissions) {
		pause_longer(&pause);
		completion = nvs_contexts_query(device);
	}
	exchange_mode(mode);
	return completion == NVS_COMPLETION_DONE;
}
