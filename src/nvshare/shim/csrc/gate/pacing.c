/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the events of pacing: a ring for each thread and device, hanging from the thread's mark, so
 * that no lock is needed.
 *
 * The driver forbids questions about events to every thread while some thread captures a graph in
 * global mode, and ends the capture if they are asked; therefore nothing is done while a capture is
 * known to go on, and the thread asks in relaxed mode in case that one begins meanwhile. Changing
 * the mode twice costs half as much as the rest (H200), so a process that never captured does
 * without: the first capture waits for the threads that are asking.
 */
#define _GNU_SOURCE
#include "gate/pacing.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/marks.h"
#include "process/clock.h"

#define WATCH_NS 50000 /* a sleep takes longer than short kernels: look without one for so long */
#define FIRST_PAUSE_NS 20000
#define LONGEST_PAUSE_NS 1000000

/*
 * Forgets the events of a context that has ended, because their handles may be another's by now;
 * gives back those of one that is only not current any more.
 */
static void rebase(struct nvs_pacing *pacing, CUcontext context)
{
	uint32_t generation = nvs_context_generation();

	if (pacing->context == context && pacing->generation == generation)
		return;
	for (int i = 0; pacing->generation == generation && i < NVS_PACE_EVENTS; i++)
		if (pacing->events[i])
			NVS_CALL(cuEventDestroy_v2, pacing->events[i]);
	memset(pacing, 0, sizeof(*pacing));
	pacing->context = context;
	pacing->generation = generation;
}

/* Any answer but "not ready" counts as done: of an event that has failed nothing is to be expected.
 */
static bool oldest_done(const struct nvs_pacing *pacing)
{
	return NVS_CALL(cuEventQuery, pacing->events[pacing->pace.oldest]) != CUDA_ERROR_NOT_READY;
}

static void observe(struct nvs_pacing *pacing)
{
	uint32_t done = 0;

	while (done < pacing->pace.events) {
		uint32_t index = (pacing->pace.oldest + done) % NVS_PACE_EVENTS;

		if (NVS_CALL(cuEventQuery, pacing->events[index]) == CUDA_ERROR_NOT_READY)
			break;
		done++;
	}
	nvs_pace_completed(&pacing->pace, done, nvs_now_ns());
}

/*
 * The thread's mark is cleared already, so the gate may close meanwhile. That does no harm: an
 * event runs nothing on the device.
 */
static void record(struct nvs_pacing *pacing, CUstream stream)
{
	uint32_t index = (pacing->pace.oldest + pacing->pace.events) % NVS_PACE_EVENTS;
	CUevent *event = &pacing->events[index];

	if (!nvs_pace_has_room(&pacing->pace))
		return;
	if (!*event && NVS_CALL(cuEventCreate, event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		*event = NULL;
		return;
	}
	if (NVS_CALL(cuEventRecord, *event, stream) == CUDA_SUCCESS)
		nvs_pace_recorded(&pacing->pace);
}

static void hold_back(struct nvs_pacing *pacing, const struct nvs_device *device)
{
	uint64_t begin = nvs_now_ns();
	struct timespec pause = { .tv_nsec = FIRST_PAUSE_NS };

	while (nvs_pace_holds(&pacing->pace)) {
		uint64_t now = nvs_now_ns();

		if (oldest_done(pacing)) {
			nvs_pace_completed(&pacing->pace, 1, now);
			begin = now;
			pause.tv_nsec = FIRST_PAUSE_NS;
			continue;
		}
		/*
		 * Whom we hold back may be the one that the work waits for (a value that another
		 * stream waits for), a capture forbids the question, and a drain waits for the
		 * device by itself.
		 */
		if (now - begin > NVS_PACE_HOLD_LIMIT_NS || nvs_captures_going_on() ||
		    atomic_load_explicit(&device->gate.state, memory_order_relaxed) !=
			    NVS_GATE_OPEN) {
			nvs_pace_give_up(&pacing->pace);
			return;
		}
		if (now - begin < WATCH_NS) {
			sched_yield();
			continue;
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < LONGEST_PAUSE_NS)
			pause.tv_nsec *= 2;
	}
}

static void step(struct nvs_pacing *pacing, const struct nvs_device *device, void *stream)
{
	CUcontext context;

	if (NVS_CALL(cuCtxGetCurrent, &context) != CUDA_SUCCESS)
		return;
	rebase(pacing, context);
	observe(pacing);
	record(pacing, stream);
	hold_back(pacing, device);
}

void nvs_pacing_look(struct nvs_mark *mark, struct nvs_device *device, void *stream)
{
	struct nvs_pacing **pacing = &mark->pacing[device->ordinal];
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	int saved = errno;

	if (nvs_captures_going_on())
		return;
	if (!*pacing)
		*pacing = calloc(1, sizeof(**pacing));
	/*
	 * `looking` is set before `nvs_capture_ever` is read; the first capture does the opposite
	 * and waits for this thread. Otherwise the question in the thread's own mode could end it.
	 */
	atomic_store_explicit(&mark->looking, true, memory_order_relaxed);
	nvs_mark_order();
	if (*pacing && !atomic_load_explicit(&nvs_capture_ever, memory_order_acquire)) {
		step(*pacing, device, stream);
	} else if (*pacing && NVS_CALL(cuThreadExchangeStreamCaptureMode, &mode) == CUDA_SUCCESS) {
		step(*pacing, device, stream);
		NVS_CALL(cuThreadExchangeStreamCaptureMode, &mode);
	}
	atomic_store_explicit(&mark->looking, false, memory_order_release);
	errno = saved;
}

uint64_t nvs_pacing_ahead_ns(const struct nvs_mark *mark, const struct nvs_device *device)
{
	static const struct nvs_pace fresh;
	const struct nvs_pacing *pacing = mark->pacing[device->ordinal];

	return nvs_pace_ahead_ns(pacing ? &pacing->pace : &fresh);
}
