/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that the simulated devices know. */
#pragma once

#include "stream/op.h"

struct sim_kernel {
	const char *name;
	unsigned int parameter_count;
	unsigned int sizes[SIM_MAX_PARAMETERS];
	CUresult (*run)(struct CUctx_st *context, const unsigned char *parameters);
};

const struct sim_kernel *sim_kernel_find(const char *name);
unsigned int sim_kernel_offset(const struct sim_kernel *kernel, unsigned int index);
unsigned int sim_kernel_parameter_bytes(const struct sim_kernel *kernel);
