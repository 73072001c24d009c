/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: where an address is, when a call may return, and carrying one out. */
#pragma once

#include "stream/op.h"

/* What is known about an address at the call. */
enum sim_home {
	SIM_HOME_DEVICE,
	SIM_HOME_PINNED,
	SIM_HOME_PAGEABLE,
	/* a device address that is nobody's, or too near the end of what it is in */
	SIM_HOME_BEYOND
};

/* Notes in a copy which way it goes. */
void sim_copy_route(struct sim_copy *copy, enum sim_home dst, enum sim_home src);
/* For the device of a context; NULL: of the current one. */
enum sim_home sim_home_of(uint64_t address, uint64_t bytes, const struct CUctx_st *context);
/*
 * Submits a copy. Where the program may change or read its host memory after the call, the copy's
 * source is taken at the call, or the call waits until the copy is done.
 */
CUresult sim_copy_submit(struct sim_op *op, CUstream stream, bool asynchronous, enum sim_home dst,
			 enum sim_home src);

/* copy.c: carries one out */
CUresult sim_copy_run(struct CUctx_st *context, const struct sim_copy *copy);

/* copy_shaped.c */

/* Turns a description of a copy into an operation; *dst and *src say where its two sides are. */
CUresult sim_copy_prepare(struct CUctx_st *context, const CUDA_MEMCPY3D_v2 *copy, struct sim_op *op,
			  enum sim_home *dst, enum sim_home *src);
/* The other way round, as far as addresses tell. */
CUDA_MEMCPY3D_v2 sim_copy_describe(const struct sim_copy *copy);
