/* SPDX-License-Identifier: Apache-2.0 */
/* Turns what a program says about a launch into an operation. */
#pragma once

#include "stream/op.h"

struct sim_launch_request {
	CUfunction function; /* or a kernel of a library */
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	void **params;
	void **extra;
};

CUresult sim_launch_prepare(struct CUctx_st *context, const struct sim_launch_request *request,
			    struct sim_op *op);
