/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the end of a turn: closing a gate, waiting for calls in flight, for captures and for the
 * device's work. Runs in the device's client thread and has no state.
 */
#include <errno.h>

#include "gate/capture.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/gate.h"
#include "gate/marks.h"

void nvs_gate_drain(struct nvs_device *device)
{
	int saved = errno;

	/*
	 * First no capture may be going on: the driver ends a capture with an error when anybody
	 * synchronizes. As long as one is, the gate lets everything pass, because the capturing
	 * thread may wait for the work of other threads; nothing is wrong with that, for the lock
	 * is still held. A program that captures for long makes its own drain long.
	 */
	atomic_store(&device->gate.state, NVS_GATE_CLOSING);
	nvs_capture_forbid();
	/*
	 * Closed before the marks are looked at: a thread that sets its mark after the look finds
	 * the gate closed (marks.c).
	 */
	atomic_store(&device->gate.state, NVS_GATE_CLOSED);
	nvs_marks_wait(device);
	/*
	 * Last: only now is everything that passed the gate in the driver's queues, where a
	 * synchronization sees it. Done earlier it would miss a call that was on its way, and that
	 * would run beside the next client's work.
	 */
	nvs_contexts_synchronize(device);
	nvs_capture_allow();
	errno = saved;
}

bool nvs_gate_wait_idle(struct nvs_device *device)
{
	int saved = errno;
	/* Not waiting for captures' ends: a program that captures is not idle. */
	bool possible = nvs_capture_try_forbid();

	if (possible) {
		nvs_contexts_synchronize(device);
		nvs_capture_allow();
	}
	errno = saved;
	return possible;
}
