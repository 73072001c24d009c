/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that submit nothing but look at device memory: the driver resolves an address in a node of
 * a graph, in a texture, in a handle for others. Where memory swaps they pass the gate like
 * submissions, so that what they look at is there.
 */
#pragma once

#include "cuda/abi.h"
#include "gate/pass.h"

struct nvs_device;

/*
 * Waits until everything that this process has in swapping memory on a device is where its
 * addresses say: on `device`, for whose lock it waits even if it has nothing there yet; NULL: on
 * that of the current context. It stays so until nvs_gate_leave. Anything but CUDA_SUCCESS is the
 * hook's answer.
 */
CUresult nvs_look_enter(struct nvs_pass *pass, const struct nvs_device *device);
