/* SPDX-License-Identifier: Apache-2.0 */
/* The gate that all calls of this process pass which have to wait while it is locked. */
#pragma once

#include <stdbool.h>

enum sim_gate {
	SIM_GATE_OPEN,
	SIM_GATE_LOCKED,
	SIM_GATE_CHECKPOINTED,
	SIM_GATE_RESTORED /* and still locked */
};

/* Waits until the gate is open. */
void sim_gate_enter(void);
void sim_gate_leave(void);
/* From now on nobody enters, or all do; those who are inside go on. */
void sim_gate_set(enum sim_gate gate);
enum sim_gate sim_gate_now(void);
/* Whether nobody is inside. */
bool sim_gate_is_empty(void);
