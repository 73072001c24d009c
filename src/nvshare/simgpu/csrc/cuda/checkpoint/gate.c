/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns how many calls are inside, and whether more may come. No lock: a call counts itself first
 * and looks then, whoever closes does it the other way round, so one of them sees the other.
 */
#include "checkpoint/gate.h"

#include "checkpoint/futex.h"

static _Atomic uint32_t inside;
static _Atomic uint32_t gate = SIM_GATE_OPEN;

void sim_gate_enter(void)
{
	uint32_t now;

	atomic_fetch_add(&inside, 1);
	while ((now = atomic_load(&gate)) != SIM_GATE_OPEN) {
		atomic_fetch_sub(&inside, 1);
		sim_futex_wait(&gate, now, 0);
		atomic_fetch_add(&inside, 1);
	}
}

void sim_gate_leave(void)
{
	atomic_fetch_sub(&inside, 1);
}

void sim_gate_set(enum sim_gate wanted)
{
	atomic_store(&gate, wanted);
	sim_futex_wake(&gate);
}

enum sim_gate sim_gate_now(void)
{
	return (enum sim_gate)atomic_load(&gate);
}

bool sim_gate_is_empty(void)
{
	return atomic_load(&inside) == 0;
}
