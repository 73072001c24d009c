/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a device: submissions pass while it is open and wait while it is closed.
 *
 * A thread that passes sets a mark of its own; whoever closes the gate runs membarrier(2) and then
 * waits until no mark of that device is set, so that afterwards no call that was in flight can
 * still submit.
 */
#ifndef NVSHARE_GATE_H
#define NVSHARE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nvs_device;

enum nvs_gate_state {
	NVS_GATE_CLOSED = 0, /* submissions wait */
	NVS_GATE_OPEN = 1,   /* submissions pass */
	/* submissions wait, except while a capture is going on in this process */
	NVS_GATE_CLOSING = 2,
	NVS_GATE_FAILING = 3 /* submissions fail with CUDA_ERROR_SYSTEM_NOT_READY */
};

struct nvs_gate {
	_Atomic int state;
	_Atomic uint32_t waiting; /* threads that wait at it; also the futex word's companion */
	_Atomic uint32_t wakeups; /* futex word */
};

/* For the client thread. */
void nvs_gate_open(struct nvs_device *device);
void nvs_gate_fail(struct nvs_device *device);
/*
 * Closes the gate and returns when all that was submitted has completed and nothing more can be:
 * DESIGN's drain.
 */
void nvs_gate_drain(struct nvs_device *device);
/*
 * Waits, with the gate open, until what had been submitted at the time of the call has completed;
 * false: cannot be known now (a capture is going on). Idle means that this returned true and
 * nvs_gate_submissions() stood still for the threshold.
 */
bool nvs_gate_settle(struct nvs_device *device);
/* Submissions so far, on all threads; only its changes mean something. */
uint64_t nvs_gate_submissions(struct nvs_device *device);

#endif
