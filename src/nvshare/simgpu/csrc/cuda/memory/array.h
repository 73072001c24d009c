/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays. Protected by sim.lock. */
#pragma once

#include "sim.h"

struct CUarray_st {
	struct CUctx_st *context;
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;
	uint64_t address;
	uint64_t pitch;
	uint64_t slice;
	uint64_t bytes;
	unsigned int element_bytes;
};
