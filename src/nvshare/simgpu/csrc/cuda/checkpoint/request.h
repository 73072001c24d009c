/* SPDX-License-Identifier: Apache-2.0 */
/* What one process asks of another, by the other's slot in the shared state. */
#pragma once

#include "sim.h"

enum sim_step {
	SIM_STEP_NONE, /* asks for the state only */
	SIM_STEP_LOCK,
	SIM_STEP_CHECKPOINT,
	SIM_STEP_RESTORE,
	SIM_STEP_UNLOCK
};

struct sim_answer {
	CUresult result; /* CUDA_ERROR_OPERATING_SYSTEM: the process has ended meanwhile */
	CUprocessState state;
};

/* Asks the process in a slot: waits for its turn, and for the answer. */
struct sim_answer sim_request_ask(const struct sim_state *state, int slot, enum sim_step step,
				  uint32_t timeout_ms);
/* Answers what this process is asked, for ever; `take` takes a step. */
void sim_request_serve(struct sim_answer (*take)(enum sim_step step, uint32_t timeout_ms));
