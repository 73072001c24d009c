/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pacing.c runs on in its tests: a device that runs kernels one after the other, the driver's
 * events, and a clock that goes on only while somebody launches, asks or sleeps. One thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "pass.h"

#define EVENTS 100000
#define LAUNCH_NS 2500	/* what a launch costs the program */
#define LATENCY_NS 6000 /* from a launch to the kernel's start on an idle device */
#define CALL_NS 200
#define CONTEXTS 256
#define STREAMS 64
#define FIRST_STREAM 0x100

/* All of it is the test's; everything but `fails` and `change` is counted or kept here. */
struct simulation {
	uint64_t now, device_free; /* when the device has done all that was submitted */
	uint64_t idle, slept;	   /* times: of the device between kernels, of the program */
	uint64_t created, destroyed, recorded, calls;
	uint64_t lost;	    /* events that were gone with their contexts */
	uint64_t faults;    /* calls that a driver would answer with an error or worse */
	uint64_t context;   /* current */
	uint64_t fails;	    /* no event can be made (1), or recorded (2) */
	uint64_t change_at; /* when `change` happens */
	uint64_t change;    /* the gate closes (1), a capture begins (2), or others come (3) */
};
extern struct simulation simulation;
struct simulation simulation __attribute__((visibility("default")));

#define EXPORT __attribute__((visibility("default")))
void simulation_reset(void);
void simulation_launch(uint64_t kernel_ns, uint64_t stream);
void simulation_stream(uint64_t stream, uint64_t context);
uint64_t simulation_recorded(uint64_t stream);
void simulation_complete(void);
void simulation_gate(int state);
void simulation_captures(int going_on);
void simulation_contended(int contended);
void simulation_context_ending(uint64_t context, int ended);

static struct {
	uint64_t done_at;
	uint64_t context; /* 0: destroyed, or gone with its context */
} events[EVENTS];
static struct nvs_mark mark;
static struct nvs_device device;
static CUstreamCaptureMode mode;
static bool relaxed; /* a capture had begun before this launch */
/* Stream n has the handle FIRST_STREAM + n. */
static struct {
	uint64_t context; /* 0: whichever is current, as that of the default stream */
	uint64_t free;	  /* when all that was submitted to it has completed */
	uint64_t recorded;
} streams[STREAMS];
static struct nvs_context {
	uint32_t life;
} contexts[CONTEXTS];

/* The library around pacing.c */

_Atomic bool nvs_marks_fenced;
__thread struct nvs_mark *nvs_mark_mine
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
_Atomic int nvs_captures;
_Atomic bool nvs_capture_ever;

const struct nvs_context *nvs_context_record(CUcontext context)
{
	return &contexts[(uintptr_t)context];
}

uint32_t nvs_context_life(const struct nvs_context *record)
{
	return record->life;
}

void nvs_context_note(CUcontext context)
{
	(void)context;
}

bool nvs_door_try(void)
{
	return true;
}

void nvs_cancel_off(void)
{
}

void nvs_cancel_on(void)
{
}

void nvs_driver_load(void)
{
}

/* The clock */

static void pass_time(uint64_t ns)
{
	simulation.now += ns;
	if (!simulation.change || simulation.now < simulation.change_at)
		return;
	if (simulation.change == 1)
		simulation_gate(NVS_GATE_CLOSING);
	else if (simulation.change == 2)
		simulation_captures(1);
	else
		simulation_contended(1);
	simulation.change = 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	simulation.faults += clock != CLOCK_MONOTONIC;
	*time = (struct timespec){ .tv_sec = (time_t)(simulation.now / 1000000000u),
				   .tv_nsec = (long)(simulation.now % 1000000000u) };
	return 0;
}

static void sleep_for(uint64_t ns)
{
	simulation.slept += ns;
	pass_time(ns);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
	(void)rest;
	sleep_for((uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec);
	return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	sleep_for(1000);
	return 0;
}

/* The driver */

static void enter(void)
{
	simulation.calls++;
	pass_time(CALL_NS);
	errno = EIO;
}

/*
 * An event is asked about or recorded. The first capture waits for threads that say so; one that
 * began to ask after it must do it in relaxed mode.
 */
static bool usable(CUevent event)
{
	enter();
	simulation.faults += !events[(uintptr_t)event].context;
	simulation.faults += !atomic_load(&mark.looking);
	simulation.faults += relaxed && mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return events[(uintptr_t)event].context;
}

static uint64_t context_of(CUstream stream)
{
	uint64_t own = streams[(uintptr_t)stream - FIRST_STREAM].context;

	return own ? own : simulation.context;
}

static CUresult stream_context(CUstream stream, CUcontext *context)
{
	enter();
	*context = (CUcontext)context_of(stream);
	return CUDA_SUCCESS;
}

static uint64_t beneath; /* the one pushed context's predecessor */

static CUresult push(CUcontext context)
{
	enter();
	simulation.faults += beneath;
	beneath = simulation.context;
	simulation.context = (uintptr_t)context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	enter();
	*context = (CUcontext)simulation.context;
	simulation.context = beneath;
	beneath = 0;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
	enter();
	*context = (CUcontext)simulation.context;
	return CUDA_SUCCESS;
}

static CUresult create(CUevent *event, unsigned int flags)
{
	enter();
	simulation.faults += flags != CU_EVENT_DISABLE_TIMING;
	*event = (CUevent)(EVENTS - 1); /* nobody's; an answer counts only after a success */
	if (simulation.fails == 1 || simulation.created + 1 == EVENTS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	simulation.created++;
	events[simulation.created].context = simulation.context;
	*event = (CUevent)simulation.created;
	return CUDA_SUCCESS;
}

static CUresult destroy(CUevent event)
{
	enter();
	simulation.faults += !events[(uintptr_t)event].context;
	events[(uintptr_t)event].context = 0;
	simulation.destroyed++;
	return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
	uint64_t number = (uintptr_t)stream - FIRST_STREAM;

	if (!usable(event) || simulation.fails == 2)
		return CUDA_ERROR_INVALID_HANDLE;
	simulation.faults += events[(uintptr_t)event].context != context_of(stream);
	/* What it stood for would be forgotten. */
	simulation.faults += events[(uintptr_t)event].done_at > simulation.now;
	simulation.recorded++;
	streams[number].recorded++;
	events[(uintptr_t)event].done_at = streams[number].free;
	return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	if (!usable(event))
		return CUDA_ERROR_INVALID_HANDLE;
	return events[(uintptr_t)event].done_at > simulation.now ? CUDA_ERROR_NOT_READY
								 : CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *other)
{
	CUstreamCaptureMode before = mode;

	enter();
	mode = *other;
	*other = before;
	return CUDA_SUCCESS;
}

struct nvs_real nvs_real = { .cuCtxGetCurrent = get_current,
			     .cuCtxPushCurrent_v2 = push,
			     .cuCtxPopCurrent_v2 = pop,
			     .cuStreamGetCtx = stream_context,
			     .cuEventCreate = create,
			     .cuEventDestroy_v2 = destroy,
			     .cuEventRecord = record,
			     .cuEventQuery = query,
			     .cuThreadExchangeStreamCaptureMode = exchange };

/* For the tests */

EXPORT void simulation_reset(void)
{
	free(mark.by_device[0].pacing);
	memset(&mark, 0, sizeof(mark));
	memset(events, 0, sizeof(events));
	simulation = (struct simulation){ .now = 1, .context = 1 };
	memset(streams, 0, sizeof(streams));
	memset(contexts, 0, sizeof(contexts));
	memset(&device, 0, sizeof(device));
	mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	beneath = 0;
	atomic_store(&nvs_captures, 0);
	atomic_store(&nvs_capture_ever, false);
	simulation_gate(NVS_GATE_OPEN);
}

/* The stream belongs to a context, whichever is current. */
EXPORT void simulation_stream(uint64_t stream, uint64_t context)
{
	streams[stream].context = context;
}

EXPORT uint64_t simulation_recorded(uint64_t stream)
{
	return streams[stream].recorded;
}

/* One thread launches a kernel, and afterwards does what a hook does. */
EXPORT void simulation_launch(uint64_t kernel_ns, uint64_t stream)
{
	CUstream handle = (CUstream)(stream + FIRST_STREAM);
	uint64_t start;

	pass_time(LAUNCH_NS);
	start = simulation.now + LATENCY_NS;
	if (simulation.device_free > start)
		start = simulation.device_free;
	else if (simulation.device_free)
		simulation.idle += start - simulation.device_free;
	simulation.device_free = streams[stream].free = start + kernel_ns;
	relaxed = atomic_load(&nvs_capture_ever);
	errno = ERANGE;
	if (nvs_pacing_due(&mark.by_device[0], ++mark.by_device[0].submissions, handle))
		nvs_pacing_look(&mark, &device, handle);
	simulation.faults += errno != ERANGE;
	simulation.faults += beneath;
	simulation.faults += atomic_load(&mark.looking);
	simulation.faults += mode != CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/* Everything completes now. */
EXPORT void simulation_complete(void)
{
	simulation.device_free = simulation.now;
	for (int i = 0; i < STREAMS; i++)
		streams[i].free = simulation.now;
	for (uint64_t i = 1; i <= simulation.created; i++)
		events[i].done_at = simulation.now;
}

EXPORT void simulation_gate(int state)
{
	atomic_store(&device.gate.state, state);
}

EXPORT void simulation_captures(int going_on)
{
	atomic_store(&nvs_captures, going_on);
	if (going_on)
		atomic_store(&nvs_capture_ever, true);
}

EXPORT void simulation_contended(int contended)
{
	atomic_store(&device.contended_until_ns, contended ? UINT64_MAX : 0);
}

/* A context may be ending, and then has ended or goes on; if it ended, its events are gone. */
EXPORT void simulation_context_ending(uint64_t context, int ended)
{
	contexts[context].life |= 1;
	simulation_launch(1, 0);
	contexts[context].life += ended ? 1 : (uint32_t)-1;
	for (uint64_t i = 1; ended && i <= simulation.created; i++)
		if (events[i].context == context) {
			events[i].context = 0;
			simulation.lost++;
		}
}
