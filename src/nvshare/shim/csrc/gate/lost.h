/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that are lost to this process: what it asks of one is answered by an error, nothing of it
 * runs there any more, and what it has there need not be kept. Any thread may call.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/abi.h"
#include "gate/device.h"

/* What calls answer where the scheduler has sent the process away, for good. */
#define NVS_SENT_AWAY CUDA_ERROR_NOT_PERMITTED

/* CUDA_SUCCESS: it is not lost. */
static inline CUresult nvs_lost(const struct nvs_device *device)
{
	return (CUresult)atomic_load_explicit(&device->lost, memory_order_relaxed);
}

/* What a call answers that gets no memory. */
static inline CUresult nvs_lost_refusal(const struct nvs_device *device)
{
	CUresult lost = nvs_lost(device);

	return lost == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : lost;
}

/* It may be: somebody is about to look, or has found that it is not. */
static inline bool nvs_lost_maybe(const struct nvs_device *device)
{
	return atomic_load_explicit(&device->suspect, memory_order_relaxed);
}

/* Some device is; seldom, so that others need not ask which. */
bool nvs_lost_any(void);

/*
 * Errors after which a context answers nothing else, with their names; NULL: it is none of them.
 * NVIDIA says of them that the process has to be ended to use CUDA again.
 */
const char *nvs_final_name(CUresult result);

/* Something was answered so by it: if that is final, somebody looks whether it is lost. */
void nvs_lost_suspect(struct nvs_device *device, CUresult result);
/* It is lost because of `result`, for as long as the process lives; what it was lost for first
 * stays. */
void nvs_lose(struct nvs_device *device, CUresult result);
