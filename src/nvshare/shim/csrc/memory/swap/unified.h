/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory of the program's own where memory swaps. It has its addresses whether it is on the
 * device or not, and the host may use it any time; but before other processes may have the device's
 * memory it is moved to the host, and back before the program's next turn, which spares its kernels
 * the page faults. It moves in chunks like all memory, by prefetching instead of copying.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"

struct nvs_device;

/*
 * How much of such an allocation moves: its whole granules, unless the device can't prefetch, or
 * the flags bind it to the host or a stream. The rest is counted as what stays.
 */
uint64_t nvs_unified_moving(const struct nvs_device *device, size_t bytes, unsigned int flags);
/* Allocates in the current context; `moving` as above, more than 0. */
CUresult nvs_unified_alloc(struct nvs_device *device, CUdeviceptr *pointer, size_t bytes,
			   unsigned int flags, uint64_t moving);
/* cuMemFree of whatever is not an allocation; what moves of it ends. */
CUresult nvs_unified_free(CUdeviceptr pointer);
/* The context was ended, and what was allocated in it. */
void nvs_unified_context_gone(CUcontext context);
/* In a forked child. */
void nvs_unified_forked(void);
