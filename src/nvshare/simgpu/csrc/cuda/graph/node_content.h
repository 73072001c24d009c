/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns what a program says about a node into an operation, for graphs and for executable ones
 * alike.
 */
#pragma once

#include "graph/graph.h"

/* What a node is made of. */
struct sim_node_content {
	CUgraphNodeType type;
	struct sim_op op;
	CUDA_MEMCPY3D_v2 copy; /* memcpy nodes: as the program said it */
};

/*
 * All of these check what a submission would check, and that there are parameters; a context that
 * is not named is the current one.
 */
CUresult sim_content_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params,
			    struct sim_node_content *content);
CUresult sim_content_copy(const CUDA_MEMCPY3D_v2 *params, CUcontext context,
			  struct sim_node_content *content);
CUresult sim_content_memset(const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext context,
			    struct sim_node_content *content);
CUresult sim_content_host(const CUDA_HOST_NODE_PARAMS_v1 *params, struct sim_node_content *content);
CUresult sim_content_event(CUevent event, bool record, struct sim_node_content *content);
CUresult sim_content_memop(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params,
			   struct sim_node_content *content);
/*
 * Any of them, from the parameters that say what they are; CUDA_ERROR_NOT_SUPPORTED for other
 * types.
 */
CUresult sim_content_any(const CUgraphNodeParams *params, struct sim_node_content *content);
/* Version 1 of a kernel's parameters is the beginning of version 2. */
CUDA_KERNEL_NODE_PARAMS_v2 sim_kernel_params_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params);
