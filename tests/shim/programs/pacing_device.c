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
#define STREAM ((CUstream)0x100)

/* All of it is the test's; everything but `fails` and `change` is counted or kept here. */
struct simulation {
	uint64_t now, device_free; /* when the device has done all that was submitted */
	uint64_t idle, slept;	   /* times: of the device between kernels, of the program */
	uint64_t created, destroyed, recorded, calls;
	uint64_t faults;    /* calls that a driver would answer with an error or worse */
	uint64_t context;   /* current */
	uint64_t fails;	    /* no event can be made (1), or recorded (2) */
	uint64_t change_at; /* when `change` happens */
	uint64_t change;    /* the gate closes (1), or a capture begins (2) */
};
extern struct simulation simulation;
struct simulation simulation __attribute__((visibility("default")));

#define EXPORT __attribute__((visibility("default")))
void simulation_reset(void);
void simulation_launch(uint64_t kernel_ns);
void simulation_gate(int state);
void simulation_captures(int going_on);
void simulation_context_ended(void);

static struct {
	uint64_t done_at;
	uint64_t context; /* 0: destroyed, or gone with its context */
} events[EVENTS];
static struct nvs_mark mark;
static struct nvs_device device;
static CUstreamCaptureMode mode;
static bool relaxed; /* a capture had begun before this launch */
static uint32_t generation;

/* The library around pacing.c */

_Atomic bool nvs_marks_fenced;
_Atomic int nvs_captures;
_Atomic bool nvs_capture_ever;

uint32_t nvs_context_generation(void)
{
	return generation;
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
	else
		simulation_captures(1);
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
	simulation.faults += events[(uintptr_t)event].context != simulation.context;
	simulation.faults += !atomic_load(&mark.looking);
	simulation.faults += relaxed && mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return events[(uintptr_t)event].context == simulation.context;
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
	if (!usable(event) || simulation.fails == 2)
		return CUDA_ERROR_INVALID_HANDLE;
	/* What it stood for would be forgotten. */
	simulation.faults += events[(uintptr_t)event].done_at > simulation.now;
	simulation.faults += stream != STREAM;
	simulation.recorded++;
	events[(uintptr_t)event].done_at = simulation.device_free;
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
			     .cuEventCreate = create,
			     .cuEventDestroy_v2 = destroy,
			     .cuEventRecord = record,
			     .cuEventQuery = query,
			     .cuThreadExchangeStreamCaptureMode = exchange };

/* For the tests */

EXPORT void simulation_reset(void)
{
	free(mark.pacing[0]);
	memset(&mark, 0, sizeof(mark));
	memset(events, 0, sizeof(events));
	simulation = (struct simulation){ .now = 1, .context = 1 };
	mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	generation = 0;
	atomic_store(&nvs_captures, 0);
	atomic_store(&nvs_capture_ever, false);
	simulation_gate(NVS_GATE_OPEN);
}

/* One thread launches a kernel, and afterwards does what a hook does. */
EXPORT void simulation_launch(uint64_t kernel_ns)
{
	uint64_t start;

	pass_time(LAUNCH_NS);
	start = simulation.now + LATENCY_NS;
	if (simulation.device_free > start)
		start = simulation.device_free;
	else if (simulation.device_free)
		simulation.idle += start - simulation.device_free;
	simulation.device_free = start + kernel_ns;
	relaxed = atomic_load(&nvs_capture_ever);
	errno = ERANGE;
	if (nvs_pacing_due(mark.pacing[0]))
		nvs_pacing_look(&mark, &device, STREAM);
	simulation.faults += errno != ERANGE;
	simulation.faults += atomic_load(&mark.looking);
	simulation.faults += mode != CU_STREAM_CAPTURE_MODE_GLOBAL;
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

/* The current context ends, its events with it, and another one has its address. */
EXPORT void simulation_context_ended(void)
{
	for (uint64_t i = 1; i <= simulation.created; i++)
		if (events[i].context == simulation.context)
			events[i].context = 0;
	generation++;
}
