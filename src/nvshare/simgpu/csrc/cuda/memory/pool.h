/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools. Protected by sim.lock. */
#pragma once

#include "memory/range.h"
#include "stream/op.h"

struct CUmemPoolHandle_st {
	int device;
	CUmemPoolProps_v1 properties;
	int reuse[3];
	uint64_t release_threshold;
	uint64_t used_bytes;
	uint64_t high_bytes;
	unsigned char access[SIM_MAX_DEVICES];
};

/* Carries out the free of a stream, or of a graph. */
CUresult sim_free_run(const struct sim_op *op);
