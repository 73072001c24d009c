/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a turn, and whether it is near. These wait for the device, so they are for a client's
 * worker, one at a time for a device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_device;

/*
 * Closes the gate, and together with those of the other members where the device is one of a gang
 * (gang_page.h). True: all that was submitted has completed, and nothing more can be: what must
 * have happened before the lock is given back. False: what was submitted waits for something that
 * the closed gate keeps from happening, and the gate should be opened again.
 *
 * `stepping` is called when the work did not complete by itself, and the first submission was let
 * through because of that.
 */
bool nvs_gate_drain(struct nvs_device *device, void (*stepping)(void *argument), void *argument);
/*
 * Waits, with the gate open, until what had been submitted has completed; false: something was
 * submitted since the count of submissions was `submissions`, it cannot be known now (a capture is
 * going on), or `*stop` became other than zero. Idle means that this returned true and the count
 * stood still for the threshold.
 */
bool nvs_gate_wait_idle(struct nvs_device *device, uint64_t submissions,
			const _Atomic unsigned int *stop);
