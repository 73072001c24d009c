/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's waits for a word of memory and writes to one. */
#pragma once

#include "stream/op.h"

CUresult sim_wait_value_run(const struct sim_op *op);
CUresult sim_write_value_run(const struct sim_op *op);
/* Turns one entry of a batch into an operation; false: it is not one that is known. */
bool sim_memop_prepare(const CUstreamBatchMemOpParams *params, struct sim_op *op);
