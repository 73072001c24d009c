/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a device, for its client: submissions pass while it is open and wait while it is
 * closed. How they pass is in pass.h, how it is closed while the lock is held in drain.h.
 */
#pragma once

#include <stdint.h>

struct nvs_device;

/* Who waits at it looks anew: the driver has lost the process (door.h). */
void nvs_gate_wake(struct nvs_device *device);
/* Not while a drain goes on. `state` is one of enum nvs_gate_state. */
void nvs_gate_set(struct nvs_device *device, int state);

/* A context has ended, or memory lacks: who waits for what can't come goes on. */
void nvs_gates_look_again(void);

/* For the drain. */

/*
 * Lets `count` more submissions pass the closed gate, none of which should take longer than
 * `most_ns`, of threads whose outstanding work and it together should not have taken longer than
 * `overdue_ns`. The two times hold for those of earlier offers, too.
 */
void nvs_gate_offer_steps(struct nvs_device *device, uint32_t count, uint64_t most_ns,
			  uint64_t overdue_ns);
/*
 * How many of them are not taken, and can't be any more. A thread that has taken one has its mark
 * set, or has passed already.
 */
uint32_t nvs_gate_withdraw_steps(struct nvs_device *device);
