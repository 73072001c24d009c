/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the events of pacing: rings for each thread and device, one for every stream that the thread
 * uses, hanging from the thread's mark, so that no lock is needed. An event says only of its own
 * stream how far it has come. Of more streams than there are rings the one not used for longest
 * gives up its ring, with what is in it.
 *
 * Events are gone with their context, and a driver that is asked for such a one may crash. A record
 * therefore remembers which life of the context its events belong to, and whoever ends the context
 * changes the life first, and then waits for the threads that are asking (nvs_marks_wait_looks).
 *
 * The driver forbids questions about events to every thread while some thread captures a graph in
 * global mode, and ends the capture if they are asked; therefore nothing is done while a capture is
 * known to go on, and the thread asks in relaxed mode in case that one begins meanwhile. Changing
 * the mode twice costs half as much as the rest (H200), so a process that never captured does
 * without: the first capture waits for the threads that are asking.
 */
#define _GNU_SOURCE
#include "gate/pacing.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/marks.h"
#include "process/clock.h"
#include "process/ends.h"
#include "process/thread.h"

#define WATCH_NS 50000 /* a sleep takes longer than short kernels: look without one for so long */
#define FIRST_PAUSE_NS 20000
#define LONGEST_PAUSE_NS 1000000

/*
 * The record of a stream becomes the current one. A record that is taken from another stream keeps
 * what it knows: its events complete in time, and kernels of one thread are often alike.
 */
static void turn_to(struct nvs_pacing *pacing, void *stream)
{
	struct nvs_paced_stream *oldest = pacing->streams, *paced;

	for (paced = pacing->streams; paced < pacing->streams + NVS_PACING_STREAMS; paced++) {
		if (paced->used && paced->stream == stream)
			break;
		if (paced->used < oldest->used)
			oldest = paced;
	}
	if (paced == pacing->streams + NVS_PACING_STREAMS)
		paced = oldest;
	paced->stream = stream;
	paced->used = ++pacing->uses;
	pacing->current = paced;
}

static bool count_to(struct nvs_pacing *pacing, uint64_t submissions)
{
	uint32_t more = (uint32_t)(submissions - pacing->counted);

	pacing->counted = submissions;
	return nvs_pace_submitted(&pacing->current->pace, more);
}

/* Counts what was submitted since the last time; false: nothing to do so far. */
static bool count(struct nvs_mark_device *own, void *stream)
{
	uint64_t submissions = atomic_load_explicit(&own->submissions, memory_order_relaxed);
	struct nvs_pacing *pacing = own->pacing;

	if (!pacing)
		pacing = own->pacing = calloc(1, sizeof(*pacing));
	if (!pacing)
		return false;
	if (!pacing->current || own->stream != stream) {
		/* All but the last went where the one before went. */
		if (pacing->current)
			count_to(pacing, submissions - 1);
		pacing->counted = submissions - 1;
		turn_to(pacing, stream);
		own->stream = stream;
	}
	return count_to(pacing, submissions);
}

static void set_next_look(struct nvs_mark_device *own)
{
	if (own->pacing)
		own->look_at =
			own->pacing->counted + nvs_pace_until_look(&own->pacing->current->pace);
}

/*
 * Forgets the events of a context that has ended; gives back those of one that is only not the
 * stream's any more. False: the context may be ending, and must be left alone.
 */
static bool rebase(struct nvs_paced_stream *paced, CUcontext context)
{
	const struct nvs_context *record = nvs_context_record(context);
	uint32_t life = nvs_context_life(record);

	if (NVS_CONTEXT_ENDING(life))
		return false;
	if (paced->handle == context && paced->context == record && paced->life == life)
		return true;
	if (paced->handle && nvs_context_life(paced->context) == paced->life)
		for (int i = 0; i < NVS_PACE_EVENTS; i++)
			if (paced->events[i])
				NVS_CALL(cuEventDestroy_v2, paced->events[i]);
	memset(paced->events, 0, sizeof(paced->events));
	paced->pace = (struct nvs_pace){ .since_record = 1 };
	paced->handle = context;
	paced->context = record;
	paced->life = life;
	return true;
}

/* The context that the stream belongs to, which need not be the current one. */
static CUcontext context_of(CUstream stream, CUcontext current)
{
	CUcontext context;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
	    NVS_CALL(cuStreamGetCtx, stream, &context) != CUDA_SUCCESS)
		return current;
	return context;
}

/* Any answer but "not ready" counts as done: of an event that has failed nothing is to be expected.
 */
static bool is_done(CUevent event)
{
	return NVS_CALL(cuEventQuery, event) != CUDA_ERROR_NOT_READY;
}

static void observe(struct nvs_paced_stream *paced)
{
	uint32_t done = 0;

	while (done < paced->pace.events &&
	       is_done(paced->events[(paced->pace.oldest + done) % NVS_PACE_EVENTS]))
		done++;
	nvs_pace_completed(&paced->pace, done, nvs_now_ns());
}

/* The count costs nothing beside the questions. */
static void look(struct nvs_paced_stream *paced, struct nvs_device *device)
{
	bool worked = paced->pace.events > 0;

	observe(paced);
	if (!worked)
		return;
	atomic_fetch_add_explicit(&device->looks, 1, memory_order_relaxed);
	if (!paced->pace.events)
		atomic_fetch_add_explicit(&device->empty_looks, 1, memory_order_relaxed);
}

/*
 * The thread's mark is cleared already, so the gate may close meanwhile. That does no harm: an
 * event runs nothing on the device.
 */
static void record(struct nvs_paced_stream *paced)
{
	uint32_t index = (paced->pace.oldest + paced->pace.events) % NVS_PACE_EVENTS;
	CUevent *event = &paced->events[index];

	if (!nvs_pace_has_room(&paced->pace))
		return;
	if (!*event && NVS_CALL(cuEventCreate, event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		*event = NULL;
		return;
	}
	if (NVS_CALL(cuEventRecord, *event, paced->stream) == CUDA_SUCCESS)
		nvs_pace_recorded(&paced->pace);
}

/*
 * `looking` is set before `nvs_capture_ever` and a context's life are read; the first capture and
 * the end of a context do the opposite and wait for this thread.
 */
static void begin_to_ask(struct nvs_mark *mark)
{
	atomic_store_explicit(&mark->looking, true, memory_order_relaxed);
	nvs_mark_order();
}

static void end_asking(struct nvs_mark *mark)
{
	atomic_store_explicit(&mark->looking, false, memory_order_release);
}

/* The oldest event may be asked about, and waiting for it makes sense. */
static bool may_wait(const struct nvs_paced_stream *paced, const struct nvs_device *device)
{
	/*
	 * A capture forbids the question, the event may be gone with its context, and a drain waits
	 * for the device by itself.
	 */
	return !nvs_captures_going_on() && nvs_context_life(paced->context) == paced->life &&
	       atomic_load_explicit(&device->gate.state, memory_order_relaxed) == NVS_GATE_OPEN;
}

/* A nap is nothing that others have to wait for: a capture, or the end of a context. */
static void rest(struct nvs_mark *mark, struct timespec *pause)
{
	end_asking(mark);
	nanosleep(pause, NULL);
	if (pause->tv_nsec < LONGEST_PAUSE_NS)
		pause->tv_nsec *= 2;
	begin_to_ask(mark);
}

/*
 * On several streams with long kernels one for each is enough, as the device may run them at the
 * same time, or one behind the other.
 */
static bool is_crowded(const struct nvs_pacing *pacing)
{
	uint32_t streams = 0, submissions = 0;

	if (!nvs_pace_is_least(&pacing->current->pace) || !pacing->current->pace.events)
		return false;
	for (const struct nvs_paced_stream *paced = pacing->streams;
	     paced < pacing->streams + NVS_PACING_STREAMS; paced++) {
		if (!nvs_pace_is_least(&paced->pace))
			continue;
		/* The thread has been there since it last used as many as it can have. */
		streams += paced->used && pacing->uses - paced->used < NVS_PACING_STREAMS;
		submissions += paced->pace.outstanding;
	}
	return streams > 1 && submissions >= streams;
}

/* Which of the other streams' work has completed. */
static void observe_others(struct nvs_pacing *pacing)
{
	for (struct nvs_paced_stream *paced = pacing->streams;
	     paced < pacing->streams + NVS_PACING_STREAMS; paced++)
		if (paced != pacing->current && paced->pace.events &&
		    nvs_context_life(paced->context) == paced->life)
			observe(paced);
}

static void look_around(struct nvs_paced_stream *paced, const struct nvs_device *device,
			uint64_t now)
{
	nvs_pace_contended(&paced->pace, nvs_device_contended(device, now),
			   atomic_load_explicit(&device->in_gang, memory_order_relaxed));
}

static void hold_back(struct nvs_pacing *pacing, struct nvs_mark *mark,
		      const struct nvs_device *device)
{
	struct nvs_paced_stream *paced = pacing->current;
	uint64_t begin = nvs_now_ns(), now = begin;
	struct timespec pause = { .tv_nsec = FIRST_PAUSE_NS };

	while ((nvs_pace_holds(&paced->pace) || is_crowded(pacing)) && may_wait(paced, device)) {
		observe_others(pacing);
		if (is_done(paced->events[paced->pace.oldest])) {
			nvs_pace_completed(&paced->pace, 1, now);
			begin = now;
			pause.tv_nsec = FIRST_PAUSE_NS;
		} else if (now - begin > nvs_pace_patience(&paced->pace)) {
			/* We hold back the one that the work waits for, as it seems. */
			nvs_pace_give_up(&paced->pace);
			return;
		} else if (now - begin < WATCH_NS) {
			sched_yield();
		} else {
			rest(mark, &pause);
		}
		now = nvs_now_ns();
		look_around(paced, device, now);
	}
}

static void step(struct nvs_pacing *pacing, struct nvs_mark *mark, struct nvs_device *device)
{
	struct nvs_paced_stream *paced = pacing->current;
	CUcontext current = NULL, context, popped;

	if (NVS_CALL(cuCtxGetCurrent, &current) != CUDA_SUCCESS)
		return;
	nvs_context_note(current);
	context = context_of(paced->stream, current);
	if (!context || !rebase(paced, context))
		return;
	if (context != current && NVS_CALL(cuCtxPushCurrent_v2, context) != CUDA_SUCCESS)
		return;
	look_around(paced, device, nvs_now_ns());
	look(paced, device);
	record(paced);
	hold_back(pacing, mark, device);
	if (context != current)
		NVS_CALL(cuCtxPopCurrent_v2, &popped);
}

void nvs_pacing_look(struct nvs_mark *mark, struct nvs_device *device, void *stream)
{
	struct nvs_mark_device *own = &mark->by_device[device->ordinal];
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	NVS_KEEP_ERRNO;

	if (nvs_captures_going_on())
		return;
	/* Behind a closed door nothing is queued. */
	if (!count(own, stream) || !nvs_door_try()) {
		set_next_look(own);
		return;
	}
	/* A nap would be a point at which the thread can be cancelled, in the middle of all this.
	 */
	nvs_cancel_off();
	begin_to_ask(mark);
	/* Otherwise the question in the thread's own mode could end the first capture. */
	if (!atomic_load_explicit(&nvs_capture_ever, memory_order_acquire)) {
		step(own->pacing, mark, device);
	} else if (NVS_CALL(cuThreadExchangeStreamCaptureMode, &mode) == CUDA_SUCCESS) {
		step(own->pacing, mark, device);
		NVS_CALL(cuThreadExchangeStreamCaptureMode, &mode);
	}
	end_asking(mark);
	set_next_look(own);
	nvs_door_leave();
	nvs_cancel_on();
}

struct nvs_pacing_cost nvs_pacing_cost(const struct nvs_mark *mark, const struct nvs_device *device)
{
	static const struct nvs_pace fresh;
	const struct nvs_pacing *pacing = mark->by_device[device->ordinal].pacing;
	const struct nvs_pace *pace = pacing ? &pacing->current->pace : &fresh;
	struct nvs_pacing_cost cost = { .submission_ns = nvs_pace_submission_ns(pace) };

	for (int i = 0; pacing && i < NVS_PACING_STREAMS; i++)
		if (pacing->streams[i].used && pacing->streams[i].pace.outstanding)
			cost.ahead_ns += nvs_pace_ahead_ns(&pacing->streams[i].pace);
	if (!cost.ahead_ns)
		cost.ahead_ns = nvs_pace_ahead_ns(pace);
	return cost;
}
