/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of this process that answers what others ask of it. */
#pragma once

#include "checkpoint/request.h"

/* By this name others find it among the threads of a process. */
#define SIM_CHECKPOINT_THREAD "simgpu-ckpt"

/* Starts it; a process has it, and a slot, from cuInit on. false: there is no room for either. */
bool sim_checkpoint_serve(void);
