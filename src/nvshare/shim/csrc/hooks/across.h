/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of plain memory in a call that goes to another device. The driver makes those of what
 * cuMemAlloc gave, and answers CUDA_ERROR_INVALID_VALUE for virtual memory, which plain memory is
 * where it swaps: then they are made in the context of the memory's own device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cuda/abi.h"

/* A copy that is made once more, between nvs_across_begin and nvs_across_end. */
struct nvs_across {
	CUcontext context; /* of the memory's device */
	CUstream own;	   /* to be made in; NULL: the call names none */
	CUstream follows;  /* the program's, which goes on after it */
};

/*
 * After the driver answered CUDA_ERROR_INVALID_VALUE to a copy in `stream`, whose gates are passed.
 * True: the other device's context is current, and the copy is to be made again, in
 * `across->own` where the call names a stream (`async`). False: `result` is the answer.
 */
bool nvs_across_begin(struct nvs_across *across, CUdeviceptr to, CUdeviceptr from, size_t bytes,
		      CUstream stream, bool async, CUresult *result);

/* After it, with its answer: the former context is current, and the program's stream waits for it.
 */
void nvs_across_end(struct nvs_across *across, CUresult *result);
