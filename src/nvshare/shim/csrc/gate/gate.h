/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a device, for its client thread: submissions pass while it is open and wait while it
 * is closed. How they pass is in pass.h.
 */
#ifndef NVSHARE_GATE_H
#define NVSHARE_GATE_H

#include <stdbool.h>

struct nvs_device;

void nvs_gate_open(struct nvs_device *device);
void nvs_gate_fail(struct nvs_device *device);
/*
 * Closes the gate and returns when all that was submitted has completed and nothing more can be:
 * what must have happened before the lock is given back.
 */
void nvs_gate_drain(struct nvs_device *device);
/*
 * Waits, with the gate open, until what had been submitted at the time of the call has completed;
 * false: cannot be known now (a capture is going on). Idle means that this returned true and
 * nvs_marks_submissions() stood still for the threshold.
 */
bool nvs_gate_wait_idle(struct nvs_device *device);

#endif
