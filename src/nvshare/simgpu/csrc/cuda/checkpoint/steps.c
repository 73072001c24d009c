/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the thread that alone takes this process's steps. What the process has on its devices stays
 * where it is, in memory of the host; a checkpoint takes it out of the account, and the time that a
 * real one would need.
 */
#define _GNU_SOURCE
#include "checkpoint/steps.h"

#include <pthread.h>

#include "checkpoint/futex.h"
#include "checkpoint/gate.h"
#include "device/bus.h"
#include "memory/range.h"

/* So often it is looked whether what a lock waits for has ended. */
#define LOOK_NS 100000

static const CUprocessState states[] = {
	[SIM_GATE_OPEN] = CU_PROCESS_STATE_RUNNING,
	[SIM_GATE_LOCKED] = CU_PROCESS_STATE_LOCKED,
	[SIM_GATE_CHECKPOINTED] = CU_PROCESS_STATE_CHECKPOINTED,
	[SIM_GATE_RESTORED] = CU_PROCESS_STATE_LOCKED,
};

static struct sim_holding holding; /* while it is checkpointed */
static _Atomic uint32_t is_serving;
static bool is_lost; /* a restore failed: none succeeds any more */

static CUprocessState state(void)
{
	return states[sim_gate_now()];
}

static bool is_idle(void)
{
	bool idle;

	sim_lock();
	idle = sim.queued == 0 && sim_gate_is_empty();
	sim_unlock();
	return idle;
}

static CUresult lock(uint32_t timeout_ms)
{
	uint64_t begun = sim_now_ns();

	if (state() != CU_PROCESS_STATE_RUNNING)
		return CUDA_ERROR_ILLEGAL_STATE;
	sim_gate_set(SIM_GATE_LOCKED);
	while (!is_idle()) {
		if (timeout_ms && sim_now_ns() - begun > timeout_ms * 1000000ull) {
			sim_gate_set(SIM_GATE_OPEN);
			return CUDA_ERROR_NOT_READY;
		}
		sim_sleep_until_ns(sim_now_ns() + LOOK_NS);
	}
	return CUDA_SUCCESS;
}

/* What is to be moved of a device, beside what its contexts need for themselves. */
static uint64_t data_bytes(const struct sim_holding *has, unsigned int place)
{
	const struct sim_shared_device *device = &sim.state.shared->devices[place];
	uint64_t own = has->contexts[place] * (device->context_bytes + device->launch_bytes);

	return has->used_bytes[place] > own ? has->used_bytes[place] - own : 0;
}

/* Returns when all of it would have moved. */
static void move(const struct sim_holding *has, enum sim_direction direction)
{
	enum sim_call whole = direction == SIM_TO_HOST ? SIM_CALL_CHECKPOINT : SIM_CALL_RESTORE;
	enum sim_call each =
		direction == SIM_TO_HOST ? SIM_CALL_CHECKPOINT_CONTEXT : SIM_CALL_RESTORE_CONTEXT;
	uint64_t begun = sim_now_ns();
	uint64_t ns = sim_call_ns(whole, 1, 0);

	for (int i = 0; i < sim_device_count(); i++)
		ns += sim_call_ns(each, has->contexts[sim.state.place[i]], 0);
	sim_call_takes(begun, ns);
	for (int i = 0; i < sim_device_count(); i++) {
		struct sim_transfer transfer =
			sim_transfer_begin(i, direction, SIM_CARGO_CHECKPOINT);

		sim_transfer_more(&transfer, data_bytes(has, sim.state.place[i]));
		sim_transfer_end(&transfer);
	}
}

static CUresult checkpoint(void)
{
	bool managed;

	if (state() != CU_PROCESS_STATE_LOCKED)
		return CUDA_ERROR_ILLEGAL_STATE;
	sim_lock();
	managed = sim_range_has_locked(SIM_RANGE_MANAGED);
	sim_unlock();
	holding = sim_state_holding(&sim.state);
	move(&holding, SIM_TO_HOST);
	if (managed)
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_state_leave(&sim.state);
	sim_gate_set(SIM_GATE_CHECKPOINTED);
	return CUDA_SUCCESS;
}

static CUresult find_reason(void)
{
	bool on_host;

	sim_lock();
	on_host = sim_physical_has_host_locked();
	sim_unlock();
	if (on_host)
		return CUDA_ERROR_UNKNOWN;
	return sim_state_return(&sim.state, &holding) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult restore(void)
{
	CUresult reason;

	if (state() != CU_PROCESS_STATE_CHECKPOINTED)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (is_lost)
		return CUDA_ERROR_OPERATING_SYSTEM;
	reason = find_reason();
	is_lost = reason != CUDA_SUCCESS;
	if (is_lost)
		return reason;
	move(&holding, SIM_TO_DEVICE);
	sim_gate_set(SIM_GATE_RESTORED);
	return CUDA_SUCCESS;
}

static CUresult unlock(void)
{
	if (state() != CU_PROCESS_STATE_LOCKED)
		return CUDA_ERROR_ILLEGAL_STATE;
	sim_gate_set(SIM_GATE_OPEN);
	return CUDA_SUCCESS;
}

static struct sim_answer take(enum sim_step step, uint32_t timeout_ms)
{
	CUresult result = CUDA_SUCCESS;

	switch (step) {
	case SIM_STEP_NONE:
		break;
	case SIM_STEP_LOCK:
		result = lock(timeout_ms);
		break;
	case SIM_STEP_CHECKPOINT:
		result = checkpoint();
		break;
	case SIM_STEP_RESTORE:
		result = restore();
		break;
	case SIM_STEP_UNLOCK:
		result = unlock();
		break;
	}
	return (struct sim_answer){ result, state() };
}

static void *serve(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), SIM_CHECKPOINT_THREAD);
	atomic_store(&is_serving, 1);
	sim_futex_wake(&is_serving);
	sim_request_serve(take);
	return NULL;
}

bool sim_checkpoint_serve(void)
{
	if (!sim_state_join(&sim.state) || !sim_start_thread(serve, NULL))
		return false;
	/* from now on others find it by its name */
	while (!atomic_load(&is_serving))
		sim_futex_wait(&is_serving, 0, 0);
	return true;
}
