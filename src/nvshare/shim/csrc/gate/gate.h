/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a device, for its client: submissions pass while it is open and wait while it is
 * closed. How they pass is in pass.h, how it is closed while the lock is held in drain.h.
 */
#ifndef NVSHARE_GATE_H
#define NVSHARE_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct nvs_device;

/* Not while a drain goes on. `state` is one of enum nvs_gate_state. */
void nvs_gate_set(struct nvs_device *device, int state);

/* For the drain. */

/*
 * Lets one submission pass the closed gate, of a thread whose outstanding work and next submission
 * should not take longer than that.
 */
void nvs_gate_offer_step(struct nvs_device *device, uint64_t most_ns);
/* False: a thread has taken the step, and its mark is set or it has passed already. */
bool nvs_gate_withdraw_step(struct nvs_device *device);

#endif
