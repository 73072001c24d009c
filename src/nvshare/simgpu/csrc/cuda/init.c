/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit: puts the parts together, and says what a fork does to them. `init_mutex` keeps two
 * threads from doing it at a time.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/gate.h"
#include "checkpoint/steps.h"
#include "memory/range.h"
#include "stream/op.h"

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;

/*
 * The parent's threads and locks are not here: like the real driver, this one cannot be used in a
 * forked child. The state is closed, because the parent's slot counts as alive as long as anybody
 * has it open.
 */
static void after_fork_in_child(void)
{
	atomic_store(&sim.phase, SIM_FORKED);
	close(sim.state.fd);
	munmap(sim.state.shared, sizeof(*sim.state.shared));
}

static CUresult initialize(void)
{
	CUresult result;

	if (!sim_state_open(&sim.state))
		return CUDA_ERROR_NO_DEVICE;
	for (int i = 0; i < sim_device_count(); i++) {
		sim.records[i] = sim_record_open(sim.state.folder, sim.state.place[i]);
		if (!sim.records[i])
			return CUDA_ERROR_OPERATING_SYSTEM;
	}
	sim_lock();
	result = sim_window_open_locked();
	sim_unlock();
	if (result != CUDA_SUCCESS)
		return result;
	if (!sim_checkpoint_serve())
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim.executor = &sim_executor;
	pthread_atfork(NULL, NULL, after_fork_in_child);
	return CUDA_SUCCESS;
}

CUresult sim_cuInit(unsigned int Flags)
{
	CUresult result = CUDA_SUCCESS;

	if (atomic_load(&sim.phase) == SIM_FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_gate_enter();
	pthread_mutex_lock(&init_mutex);
	if (atomic_load(&sim.phase) == SIM_UNTOUCHED) {
		result = initialize();
		if (result == CUDA_SUCCESS)
			atomic_store_explicit(&sim.phase, SIM_READY, memory_order_release);
	}
	pthread_mutex_unlock(&init_mutex);
	sim_gate_leave();
	return result;
}

CUresult sim_cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = SIM_DRIVER_VERSION;
	return CUDA_SUCCESS;
}
