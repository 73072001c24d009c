/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the gates' states: the slow paths of pass.h, and opening. Closing for a drain is in drain.c.
 *
 * No lock. A gate's state is written by its client's threads, one at a time: by the worker while it
 * drains, otherwise by the client thread (and in a forked child). Waiting threads sleep on
 * gate.wakeups.
 */
#include "gate/gate.h"

#include <errno.h>
#include <limits.h>

#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/completion.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/lost.h"
#include "gate/marks.h"
#include "gate/pass.h"
#include "gate/python.h"
#include "gate/streams.h"
#include "process/ends.h"
#include "process/futex.h"

#define ASK_AGAIN_NS 100000000u /* of who was not heard */

static bool passes(struct nvs_pass *pass, int state)
{
	switch (state) {
	case NVS_GATE_OPEN:
		return true;
	case NVS_GATE_CLOSING:
		/*
		 * The lock is still held and the drain waits for the captures' end, which may need
		 * this call: if it waited here, the two would wait for each other.
		 */
		return nvs_captures_going_on();
	case NVS_GATE_CLOSED:
		/*
		 * What is captured is not submitted. The second device of a peer copy shares the
		 * first one's stream.
		 */
		if (!pass->capturing && nvs_captures_going_on())
			pass->capturing = nvs_capture_pass(pass->stream);
		return pass->capturing;
	default:
		return false;
	}
}

/* A submission may pass the closed gate, and it may be one of the calling thread's. */
static bool may_step(const struct nvs_device *device)
{
	const struct nvs_gate *gate = &device->gate;
	struct nvs_pacing_cost cost;

	if (!atomic_load(&gate->steps) || !nvs_mark_mine)
		return false;
	cost = nvs_pacing_cost(nvs_mark_mine, device);
	return cost.submission_ns <= atomic_load(&gate->step) &&
	       cost.ahead_ns <= atomic_load(&gate->overdue);
}

/*
 * The thread's mark is set, and the exchange makes that visible to the drain, which reads that the
 * step was taken before it looks at the marks again.
 */
static bool take_step(struct nvs_device *device)
{
	uint32_t steps = atomic_load(&device->gate.steps);

	while (steps)
		if (atomic_compare_exchange_weak(&device->gate.steps, &steps, steps - 1))
			return true;
	return false;
}

/* False: the program wants to go on without. */
static bool wait_at(struct nvs_device *device, int seen)
{
	struct nvs_gate *gate = &device->gate;
	bool interrupted = false;
	uint32_t wakeups;

	/*
	 * Counted before it asks. A whole turn may pass between any two of these lines, and use up
	 * the wish; but whoever ends that turn looks at the count, and asks again for those who
	 * wait. Who is counted after that look sends a wish that nobody has used up.
	 */
	atomic_fetch_add(&gate->waiting, 1);
	/*
	 * Every time: the lock may have been granted and given back since the last one, and then
	 * nobody else would ask for it again.
	 */
	nvs_device_tell(device, NVS_NEWS_WANTED);
	/*
	 * nvs_gate_set(), nvs_gate_offer_steps() and who has lost the process write the state or
	 * the step first and the wakeups then. Read in the opposite order: whatever happens after
	 * this line, either what was seen has changed or the futex returns at once because its word
	 * has.
	 */
	wakeups = atomic_load(&gate->wakeups);
	if (atomic_load(&gate->state) == seen && !may_step(device) &&
	    atomic_load(&nvs_door_state) != NVS_DOOR_LOST)
		interrupted = nvs_futex_sleep(&gate->wakeups, wakeups,
					      atomic_load(&device->unheard) ? ASK_AGAIN_NS
									    : UINT64_MAX) == EINTR;
	atomic_fetch_sub(&gate->waiting, 1);
	return !interrupted || !nvs_python_interrupts();
}

/* It is seen in this state. CUDA_SUCCESS: the gate may let the call pass now. */
static CUresult wait_or_fail(struct nvs_device *device, int seen)
{
	if (seen == NVS_GATE_LOST)
		return nvs_lost(device);
	if (nvs_door_inherited())
		return CUDA_ERROR_NOT_INITIALIZED;
	return seen != NVS_GATE_FAILING && wait_at(device, seen) ? CUDA_SUCCESS
								 : CUDA_ERROR_SYSTEM_NOT_READY;
}

/* One step of each device, or, when another thread was quicker, the device that had none left. */
static struct nvs_device *take_steps(uint64_t mask)
{
	NVS_EACH_DEVICE(device, mask)
		if (!take_step(device))
			return device;
	return NULL;
}

/*
 * The first device of the mask whose gate does not let the call pass now, and the state that it was
 * seen in; NULL: all do.
 */
static struct nvs_device *find_obstacle(struct nvs_pass *pass, uint64_t mask, int *seen)
{
	uint64_t closed = 0;

	NVS_EACH_DEVICE(device, mask) {
		int state = atomic_load_explicit(&device->gate.state, memory_order_acquire);

		if (passes(pass, state))
			continue;
		*seen = state;
		/* A step is not wasted on a call that another device would stop. */
		if (!may_step(device))
			return device;
		closed |= 1ULL << device->ordinal;
	}
	return take_steps(closed);
}

/* With the devices whose memory those of the mask may use. */
static uint64_t with_reached(uint64_t mask)
{
	uint64_t all = mask;

	NVS_EACH_DEVICE(device, mask)
		all |= atomic_load(&device->reaches);
	return all;
}

/*
 * The turn has come, and the memory for it has not. Without a context it can't come, nor can
 * anything be submitted: then what the driver says of the current context is the answer, and the
 * call is not made, since another thread may make a context just now.
 */
static CUresult refusal(const struct nvs_device *device)
{
	CUdevice ordinal;

	return !atomic_load(&device->gate.lacks_memory) || nvs_contexts_alive(device)
		       ? CUDA_SUCCESS
		       : NVS_CALL(cuCtxGetDevice, &ordinal);
}

/* `outside`: no frame of the driver is below. */
static CUresult wait_outside(struct nvs_device *device, int seen, bool outside)
{
	unsigned int inside = outside ? nvs_door_step_out() : 0;
	CUresult result = wait_or_fail(device, seen);

	return inside && result == CUDA_SUCCESS ? nvs_door_step_in(inside) : result;
}

static CUresult enter_mask(struct nvs_pass *pass, uint64_t mask, bool outside)
{
	struct nvs_mark *mark = pass->mark;
	int seen = NVS_GATE_OPEN;
	CUresult result;

	for (;;) {
		struct nvs_device *obstacle;

		/*
		 * All or none: a call that waits for one device must not keep another one from
		 * being drained.
		 */
		mark->depth = 1;
		atomic_store_explicit(&mark->devices, mask, memory_order_relaxed);
		nvs_mark_order();
		obstacle = find_obstacle(pass, mask, &seen);
		if (!obstacle)
			return CUDA_SUCCESS;
		/*
		 * Nothing is held while it waits: not the captures' end, not the mark, and the door
		 * only inside another call. A handler of a signal may submit meanwhile, or end the
		 * wait by a jump.
		 */
		if (pass->capturing)
			nvs_capture_passed();
		pass->capturing = false;
		atomic_store_explicit(&mark->devices, 0, memory_order_release);
		mark->depth = 0;
		result = refusal(obstacle);
		if (result == CUDA_SUCCESS)
			result = wait_outside(obstacle, seen, outside);
		if (result != CUDA_SUCCESS)
			return result;
	}
}

static CUresult enter(struct nvs_pass *pass, uint64_t mask, void *stream, bool outside)
{
	/* The program may look at errno later: what is called here must not show in it. */
	NVS_KEEP_ERRNO;
	CUresult result = nvs_door_enter();

	if (result != CUDA_SUCCESS)
		return result;
	*pass = (struct nvs_pass){ .mark = nvs_mark_mine, .stream = stream };
	/*
	 * The driver called an exported function of its own, which is our hook. The outer call
	 * passed already; if this one waited, its mark would keep the drain from ending.
	 */
	if (pass->mark->depth)
		pass->mark->depth++;
	else
		result = enter_mask(pass, with_reached(mask), outside);
	/* From here on it is the mark of its devices that the door sees. */
	nvs_door_leave();
	return result;
}

static bool is_outside(const struct nvs_mark *mark)
{
	return !mark || !atomic_load_explicit(&mark->inside, memory_order_relaxed);
}

CUresult nvs_gate_enter_mask(struct nvs_pass *pass, uint64_t mask, void *stream)
{
	return enter(pass, mask, stream, is_outside(nvs_mark_mine));
}

CUresult nvs_gate_enter_slowly(struct nvs_pass *pass, void *stream)
{
	struct nvs_mark *mark = nvs_mark_mine;
	bool outside = is_outside(mark);
	struct nvs_device *device;
	CUresult result;

	/* A call inside another one, as above; the driver is not asked for its device. */
	if (mark && mark->depth) {
		mark->depth++;
		*pass = (struct nvs_pass){ .mark = mark };
		return CUDA_SUCCESS;
	}
	result = nvs_door_enter();
	if (result != CUDA_SUCCESS)
		return result;
	/* Its context may have come into being around the hooks; with one device nobody asks again.
	 */
	mark = nvs_mark_mine;
	if (!mark->submits || atomic_load_explicit(&nvs_device_only, memory_order_acquire))
		nvs_context_note_current();
	mark->submits = true;
	device = nvs_device_of(stream);
	if (!device) { /* no context: the driver will say so */
		*pass = (struct nvs_pass){ .at_door = true };
		return CUDA_SUCCESS;
	}
	result = enter(pass, 1ULL << device->ordinal, stream, outside);
	pass->device = device;
	nvs_door_leave();
	return result;
}

void nvs_gate_hold(struct nvs_pass *pass, struct nvs_device *device)
{
	struct nvs_mark *mark = device ? nvs_mark_take() : NULL;

	*pass = (struct nvs_pass){ .mark = mark };
	if (mark && !mark->depth++)
		atomic_store_explicit(&mark->devices, 1ULL << device->ordinal,
				      memory_order_seq_cst);
}

void nvs_gate_leave_slowly(struct nvs_pass *pass)
{
	struct nvs_mark *mark = pass->mark;
	uint64_t mask;

	if (pass->at_door)
		nvs_door_leave();
	if (!mark || --mark->depth)
		return;
	mask = atomic_load_explicit(&mark->devices, memory_order_relaxed);
	for (int ordinal = 0; mask; ordinal++, mask >>= 1)
		if (mask & 1)
			atomic_fetch_add_explicit(&mark->by_device[ordinal].submissions, 1,
						  memory_order_relaxed);
	/* Released: who finds the mark cleared also finds what the call submitted. */
	atomic_store_explicit(&mark->devices, 0, memory_order_release);
	if (pass->capturing)
		nvs_capture_passed();
}

static void wake(struct nvs_gate *gate)
{
	atomic_fetch_add(&gate->wakeups, 1);
	nvs_futex_wake(&gate->wakeups, INT_MAX);
}

void nvs_gate_wake(struct nvs_device *device)
{
	wake(&device->gate);
}

void nvs_gate_set(struct nvs_device *device, int state)
{
	atomic_store(&device->gate.state, state);
	wake(&device->gate);
}

void nvs_gates_look_again(void)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (atomic_load(&device->gate.waiting))
			wake(&device->gate);
}

void nvs_gate_offer_steps(struct nvs_device *device, uint32_t count, uint64_t most_ns,
			  uint64_t overdue_ns)
{
	atomic_store(&device->gate.overdue, overdue_ns);
	atomic_store(&device->gate.step, most_ns);
	atomic_fetch_add(&device->gate.steps, count);
	wake(&device->gate);
}

uint32_t nvs_gate_withdraw_steps(struct nvs_device *device)
{
	return atomic_exchange(&device->gate.steps, 0);
}
