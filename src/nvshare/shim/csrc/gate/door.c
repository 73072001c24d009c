/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the door's state. No lock: one thread at a time has it CLOSING, and what it finds decides.
 * Threads that wait sleep on the state.
 */
#include "gate/door.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "gate/device.h"
#include "gate/python.h"
#include "process/ends.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/sleepless.h"

#define EXIT_LOOK_NS 100000000ull /* how often a process that ends looks whether it may */

_Atomic uint32_t nvs_door_state __attribute__((visibility("hidden")));

static _Atomic uint32_t closings; /* how often it was closed */
static _Atomic bool wanted;	  /* since it began to close somebody has wanted to enter */
static _Atomic uint64_t links;	  /* devices whose clients can have it opened, a bit each */
static _Atomic pid_t process;	  /* whose door it is; 0: no device was used yet */
static __thread bool ended;	  /* the process ends in this thread, behind the closed door */

static void set(uint32_t state)
{
	atomic_store(&nvs_door_state, state);
	nvs_futex_wake(&nvs_door_state, INT_MAX);
}

/* Entering */

/* What the door is when it is not about to be something else. */
static uint32_t settled(void)
{
	uint32_t state = atomic_load(&nvs_door_state);

	for (; state == NVS_DOOR_CLOSING; state = atomic_load(&nvs_door_state))
		nvs_futex_sleep(&nvs_door_state, state, UINT64_MAX);
	return state;
}

bool nvs_door_try(void)
{
	struct nvs_mark *mark = nvs_mark_take();
	unsigned int inside = mark ? atomic_load(&mark->inside) : 0;

	if (!mark)
		return false;
	for (;;) {
		atomic_store_explicit(&mark->inside, inside + 1, memory_order_relaxed);
		nvs_mark_order();
		if (inside || atomic_load(&nvs_door_state) == NVS_DOOR_OPEN)
			return true;
		atomic_store_explicit(&mark->inside, 0, memory_order_release);
		if (settled() != NVS_DOOR_OPEN)
			return false;
	}
}

void nvs_door_pass(void)
{
	struct nvs_mark *mark = nvs_mark_take();

	if (mark)
		atomic_fetch_add(&mark->inside, 1);
}

bool nvs_door_wait(void)
{
	nvs_mark_await();
	while (!nvs_door_try()) {
		uint32_t state = atomic_load(&nvs_door_state);

		if (state == NVS_DOOR_LOST)
			return false;
		if (state != NVS_DOOR_OPEN)
			nvs_futex_sleep(&nvs_door_state, state, UINT64_MAX);
	}
	return true;
}

/*
 * Written first, and told then: the client that hears it finds it, and one that looks before sends
 * WAKE all the same.
 */
static void want(uint32_t state)
{
	atomic_store(&wanted, true);
	if (state == NVS_DOOR_CLOSED)
		NVS_EACH_DEVICE(device, UINT64_MAX)
			nvs_device_tell(device, NVS_NEWS_DOOR);
}

bool nvs_door_inherited(void)
{
	pid_t owner = atomic_load(&process);

	return owner && getpid() != owner;
}

/* What a call answers that would wait in vain; CUDA_SUCCESS: it may wait. */
static CUresult refusal(uint32_t state)
{
	if (!nvs_mark_mine)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (state == NVS_DOOR_LOST)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (nvs_door_inherited())
		return CUDA_ERROR_NOT_INITIALIZED;
	return ended ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

/*
 * Nothing is held while it waits: a handler of a signal may call the driver meanwhile, or end the
 * wait by a jump.
 */
CUresult nvs_door_enter_slowly(void)
{
	NVS_KEEP_ERRNO;

	while (!nvs_door_try()) {
		uint32_t state = atomic_load(&nvs_door_state);
		CUresult result = refusal(state);

		if (result != CUDA_SUCCESS)
			return result;
		if (state == NVS_DOOR_OPEN)
			continue;
		want(state);
		if (nvs_futex_sleep(&nvs_door_state, state, UINT64_MAX) == EINTR &&
		    nvs_python_interrupts())
			return CUDA_ERROR_SYSTEM_NOT_READY;
	}
	return CUDA_SUCCESS;
}

unsigned int nvs_door_step_out(void)
{
	return atomic_exchange(&nvs_mark_mine->inside, 0);
}

CUresult nvs_door_step_in(unsigned int inside)
{
	CUresult result = nvs_door_enter();

	if (result == CUDA_SUCCESS)
		atomic_store_explicit(&nvs_mark_mine->inside, inside, memory_order_relaxed);
	return result;
}

/* Closing */

/*
 * After the marks: who opens a gate is inside until it is open, and who drains one until all has
 * completed.
 */
static const char *busy_gate(bool *final)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		switch (atomic_load(&device->gate.state)) {
		case NVS_GATE_CLOSED:
			break;
		case NVS_GATE_LOST:
			*final = true;
			return "one of its GPUs is lost to it";
		default:
			return "it has the lock of a GPU";
		}
	return NULL;
}

/* Why it may not be closed, while it is CLOSING; NULL: nothing speaks against it. */
static const char *find_reason(bool *final)
{
	const char *why = nvs_sleepless_why();

	*final = why != NULL;
	if (why)
		return why;
	nvs_marks_order();
	why = nvs_marks_inside() ? "a thread is in the driver" : busy_gate(final);
	/* Who came meanwhile waits for it to be closed or open. */
	if (!why && atomic_load(&wanted))
		why = "a thread is about to use the driver";
	return why;
}

const char *nvs_door_close(bool *final)
{
	uint32_t state = NVS_DOOR_OPEN;
	const char *why;

	*final = false;
	while (!atomic_compare_exchange_strong(&nvs_door_state, &state, NVS_DOOR_CLOSING)) {
		/* By another device's client. */
		if (state == NVS_DOOR_CLOSED)
			return NULL;
		if (state == NVS_DOOR_LOST) {
			*final = true;
			return "the driver has lost it";
		}
		settled();
		state = NVS_DOOR_OPEN;
	}
	atomic_store(&wanted, false);
	why = find_reason(final);
	if (!why)
		atomic_fetch_add(&closings, 1);
	set(why ? NVS_DOOR_OPEN : NVS_DOOR_CLOSED);
	return why;
}

void nvs_door_open(bool lost)
{
	uint32_t state = NVS_DOOR_CLOSED;

	if (lost)
		set(NVS_DOOR_LOST);
	else if (atomic_compare_exchange_strong(&nvs_door_state, &state, NVS_DOOR_OPEN))
		nvs_futex_wake(&nvs_door_state, INT_MAX);
	else
		return;
	NVS_EACH_DEVICE(device, UINT64_MAX)
		nvs_device_tell(device, NVS_NEWS_DOOR);
}

uint32_t nvs_door_closing(void)
{
	return atomic_load(&nvs_door_state) == NVS_DOOR_CLOSED ? atomic_load(&closings) : 0;
}

bool nvs_door_wanted(void)
{
	if (atomic_load(&wanted))
		return true;
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (atomic_load(&device->gate.waiting))
			return true;
	return false;
}

/* In this order: a closing that comes in between makes it another one's number, never the next. */
uint32_t nvs_door_openings(void)
{
	uint32_t count = atomic_load(&closings);

	return count - (atomic_load(&nvs_door_state) != NVS_DOOR_OPEN);
}

void nvs_door_link(const struct nvs_device *device, bool up)
{
	uint64_t bit = 1ULL << device->ordinal;

	if (up)
		atomic_fetch_or(&links, bit);
	else
		atomic_fetch_and(&links, ~bit);
}

/* The end of the process */

/*
 * The driver's own part of it follows, which we don't see and which needs the devices. Who is
 * inside stays there, so that the door is not closed any more. Nobody but a scheduler can wake the
 * process; without one it ends as it is, and what still calls the driver is told so.
 */
static void at_exit(void)
{
	NVS_KEEP_ERRNO;

	while ((ended = !nvs_door_try()) && !nvs_door_inherited() &&
	       atomic_load(&nvs_door_state) == NVS_DOOR_CLOSED && atomic_load(&links)) {
		want(NVS_DOOR_CLOSED);
		nvs_futex_sleep(&nvs_door_state, NVS_DOOR_CLOSED, EXIT_LOOK_NS);
	}
}

void nvs_door_prepare(void)
{
	static bool prepared;

	atomic_store(&process, getpid());
	if (!prepared)
		prepared = !atexit(at_exit);
}

void nvs_door_forked(void)
{
	atomic_store(&nvs_door_state, NVS_DOOR_OPEN);
	atomic_store(&wanted, false);
	atomic_store(&links, 0);
}
