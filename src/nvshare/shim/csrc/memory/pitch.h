/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAllocPitch for backends that have only one way to allocate.
 */
#ifndef NVSHARE_PITCH_H
#define NVSHARE_PITCH_H

#include <stddef.h>

#include "cuda/abi.h"

/* Arguments and answers as the driver's; the pitch is written only on success. */
CUresult nvs_pitch_alloc(CUresult (*alloc)(CUdeviceptr *pointer, size_t bytes),
			 CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
			 unsigned int element);

#endif
