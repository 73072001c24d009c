/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the end of a turn: closing a gate, waiting for calls in flight, for captures and for the
 * device's work. Runs in the device's client thread and has no state.
 */
#include <errno.h>

#include "capture.h"
#include "contexts.h"
#include "device.h"
#include "gate.h"
#include "marks.h"

/*
 * The order matters. First no capture may be going on, because the synchronization would break it;
 * as long as one is, the gate is CLOSING and lets everything pass, since the capturing thread may
 * wait for other threads' work, and the lock is still held. Then the gate is CLOSED, and what still
 * was on its way through it is waited for. Only then does the synchronization see everything that
 * was ever submitted.
 */
void nvs_gate_drain(struct nvs_device *device)
{
	int saved = errno;

	atomic_store(&device->gate.state, NVS_GATE_CLOSING);
	nvs_capture_forbid();
	atomic_store(&device->gate.state, NVS_GATE_CLOSED);
	nvs_marks_wait(device);
	nvs_contexts_synchronize(device);
	nvs_capture_allow();
	errno = saved;
}

bool nvs_gate_settle(struct nvs_device *device)
{
	int saved = errno;
	bool settled = nvs_capture_try_forbid();

	if (settled) {
		nvs_contexts_synchronize(device);
		nvs_capture_allow();
	}
	errno = saved;
	return settled;
}
