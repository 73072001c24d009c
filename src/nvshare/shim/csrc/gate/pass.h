/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a hook goes through the gate: nvs_gate_enter before the driver's function, nvs_gate_leave
 * after it. The thread says in its mark that it goes through, and looks at the gate then; whoever
 * closes the gate does the opposite (marks.h), so either the thread finds the gate closed or the
 * closer finds the mark. What is inline here is the way of every launch through an open gate: no
 * lock, no system call, no function call.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/lost.h"
#include "gate/marks.h"
#include "gate/pacing.h"

/* What NULL means in the _ptsz forms. */
#define NVS_PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* A call on its way through the gate. */
struct nvs_pass {
	struct nvs_mark *mark;	   /* NULL: nothing to do at the end */
	struct nvs_device *device; /* NULL: none or several, or a call inside another one */
	void *stream;
	bool capturing; /* passed a closed gate because the stream is being captured */
	bool at_door;	/* without a device it is the door that has to know of the call */
};

CUresult nvs_gate_enter_slowly(struct nvs_pass *pass, void *stream);
void nvs_gate_leave_slowly(struct nvs_pass *pass);
/* For a call that submits to the devices of `mask`, a bit for every ordinal. */
CUresult nvs_gate_enter_mask(struct nvs_pass *pass, uint64_t mask, void *stream);
/*
 * Lets a drain wait for the call without waiting for the gate: for the end of a context, which may
 * take as long as its work.
 */
void nvs_gate_hold(struct nvs_pass *pass, struct nvs_device *device);

/*
 * Waits until the stream's device may be used; anything but CUDA_SUCCESS is the hook's answer,
 * without nvs_gate_leave.
 */
static inline CUresult nvs_gate_enter(struct nvs_pass *pass, void *stream)
{
	struct nvs_mark *mark = nvs_mark_mine;
	struct nvs_device *device = atomic_load_explicit(&nvs_device_only, memory_order_acquire);

	if (__builtin_expect(mark && device && !mark->depth, 1)) {
		atomic_store_explicit(&mark->devices, 1ULL << device->ordinal,
				      memory_order_relaxed);
		nvs_mark_order();
		if (__builtin_expect(atomic_load_explicit(&device->gate.state,
							  memory_order_acquire) == NVS_GATE_OPEN,
				     1)) {
			mark->depth = 1;
			*pass = (struct nvs_pass){ mark, device, stream, false, false };
			return CUDA_SUCCESS;
		}
		atomic_store_explicit(&mark->devices, 0, memory_order_release);
	}
	return nvs_gate_enter_slowly(pass, stream);
}

/*
 * The same in a hook, for the devices of a mask that the driver may be asked for; none: for the
 * stream's. It is asked behind the door, and the turn is waited for outside.
 */
#define NVS_GATE_ENTER_FOUND(stream, devices)                                                   \
	__extension__({                                                                         \
		uint64_t nvs_mask = 0;                                                          \
		CUresult nvs_found = NVS_BEHIND_DOOR((nvs_mask = (devices), CUDA_SUCCESS));     \
                                                                                                \
		if (nvs_found == CUDA_SUCCESS)                                                  \
			nvs_found = nvs_mask ? nvs_gate_enter_mask(&nvs_pass, nvs_mask, stream) \
					     : nvs_gate_enter(&nvs_pass, stream);               \
		nvs_found;                                                                      \
	})

static inline void nvs_gate_leave(struct nvs_pass *pass, CUresult result)
{
	struct nvs_mark *mark = pass->mark;
	struct nvs_mark_device *own;
	uint64_t submissions;

	if (__builtin_expect(!mark || !pass->device || pass->capturing || mark->depth > 1, 0)) {
		nvs_gate_leave_slowly(pass);
		return;
	}
	own = &mark->by_device[pass->device->ordinal];
	submissions = atomic_load_explicit(&own->submissions, memory_order_relaxed) + 1;
	atomic_store_explicit(&own->submissions, submissions, memory_order_relaxed);
	mark->depth = 0;
	atomic_store_explicit(&mark->devices, 0, memory_order_release);
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		nvs_lost_suspect(pass->device, result);
	else if (nvs_pacing_due(own, submissions, pass->stream))
		nvs_pacing_look(mark, pass->device, pass->stream);
}

/*
 * A hook that passes the gate and calls the driver's function: `enter` is a call with `&nvs_pass`,
 * `then` what is done about the answer, `nvs_result`. It begins a line of the cache: in the middle
 * of one a call took half a nanosecond more. For files that include driver.h.
 */
#define NVS_PASSING_HOOK_THEN(symbol, parameters, arguments, enter, then)                    \
	NVS_EXPORTED(symbol, parameters)                                                     \
	__attribute__((aligned(64))) CUresult nvs_hook_##symbol parameters NVS_PASSING_BODY( \
		symbol, arguments, enter, then)

/* The same without a name: `parameters` are those of the function that it is the body of. */
#define NVS_PASSING_BODY(symbol, arguments, enter, then)                     \
	{                                                                    \
		__typeof__(nvs_real.symbol) nvs_function = NVS_REAL(symbol); \
		struct nvs_pass nvs_pass;                                    \
		CUresult nvs_result;                                         \
                                                                             \
		if (!nvs_function)                                           \
			return CUDA_ERROR_NOT_FOUND;                         \
		nvs_result = enter;                                          \
		if (nvs_result != CUDA_SUCCESS)                              \
			return nvs_result;                                   \
		nvs_result = nvs_function arguments;                         \
		then;                                                        \
		nvs_gate_leave(&nvs_pass, nvs_result);                       \
		return nvs_result;                                           \
	}

#define NVS_PASSING_HOOK(symbol, parameters, arguments, enter) \
	NVS_PASSING_HOOK_THEN(symbol, parameters, arguments, enter, )
