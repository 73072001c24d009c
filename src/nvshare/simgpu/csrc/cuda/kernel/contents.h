/* SPDX-License-Identifier: Apache-2.0 */
/* nvshare's own kernels. */
#pragma once

#include "sim.h"

/* Its parameters: struct nvs_hash_key, u64 address, u64 units, u64 blocks, ptr results. */
CUresult sim_hash_contents(struct CUctx_st *context, const unsigned char *parameters);
/* u64 address, u64 units, u64 blocks. */
CUresult sim_clear_contents(struct CUctx_st *context, const unsigned char *parameters);
