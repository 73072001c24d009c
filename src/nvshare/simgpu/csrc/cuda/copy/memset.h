/* SPDX-License-Identifier: Apache-2.0 */
/* Memsets: what is allowed, and carrying one out. */
#pragma once

#include "stream/op.h"

CUresult sim_memset_check(const struct sim_memset *set);
CUresult sim_memset_run(struct CUctx_st *context, const struct sim_memset *set);
