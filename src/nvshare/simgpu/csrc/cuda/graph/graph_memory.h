/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that graphs allocate when they run. Protected by sim.lock. */
#pragma once

#include "graph/graph_exec.h"

/* An allocation in a capturing stream: an address now, memory whenever the graph runs. */
CUresult sim_graph_memory_capture_alloc_locked(struct CUstream_st *stream, int device,
					       uint64_t bytes, CUdeviceptr_v2 *address);
/* Gives the allocation nodes of a graph that is being launched their memory. */
CUresult sim_graph_memory_take_locked(const struct CUgraphExec_st *exec, struct CUctx_st *context);
/* A fresh address for an allocation node. */
uint64_t sim_graph_memory_reserve_locked(uint64_t bytes);
/* Whether a node may free it: an allocation node has that address. */
bool sim_graph_memory_is_locked(uint64_t address);
