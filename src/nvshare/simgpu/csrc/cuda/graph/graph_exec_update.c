/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes to executable graphs: their steps are replaced by changed ones, so that launches in
 * flight keep theirs. Under sim.lock.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/graph_exec.h"
#include "graph/node_content.h"

static struct sim_steps *copy_steps(const struct sim_steps *steps)
{
	size_t bytes = sizeof(*steps) + steps->count * sizeof(struct sim_step);
	struct sim_steps *copy = malloc(bytes);

	memcpy(copy, steps, bytes);
	copy->references = 1;
	return copy;
}

static void install(struct CUgraphExec_st *exec, struct sim_steps *steps)
{
	sim_steps_unref_locked(exec->steps);
	exec->steps = steps;
}

/* The index of the step that a node of the original graph became; the count if there is none. */
static size_t step_of(const struct CUgraphExec_st *exec, CUgraphNode node)
{
	size_t at = 0;

	if (!sim_is_locked(node, SIM_NODE))
		return exec->steps->count;
	while (at < exec->steps->count && exec->steps->entries[at].node_id != node->id)
		at++;
	return at;
}

/* Changes the step of a node unless making its content has failed. */
static CUresult change(CUgraphExec exec, CUgraphNode node, CUresult made,
		       const struct sim_node_content *content)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (made != CUDA_SUCCESS)
		return made;
	sim_lock();
	if (sim_is_locked(exec, SIM_EXEC)) {
		size_t at = step_of(exec, node);

		if (at < exec->steps->count && exec->steps->entries[at].type == content->type) {
			struct sim_steps *steps = copy_steps(exec->steps);

			steps->entries[at].op = content->op;
			install(exec, steps);
			result = CUDA_SUCCESS;
		}
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
					       const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_kernel(nodeParams, &content);

	return change(hGraphExec, hNode, made, &content);
}

CUresult sim_cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					    const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	wide = sim_kernel_params_widen(nodeParams);
	return sim_cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &wide);
}

CUresult sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					    const CUDA_MEMCPY3D_v2 *copyParams, CUcontext ctx)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_copy(copyParams, ctx, &content);

	return change(hGraphExec, hNode, made, &content);
}

CUresult sim_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					    const CUDA_MEMSET_NODE_PARAMS_v1 *memsetParams,
					    CUcontext ctx)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_memset(memsetParams, ctx, &content);

	return change(hGraphExec, hNode, made, &content);
}

CUresult sim_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					  const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_host(nodeParams, &content);

	return change(hGraphExec, hNode, made, &content);
}

CUresult sim_cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
						CUevent event)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_event(event, true, &content);

	return change(hGraphExec, hNode, made, &content);
}

CUresult sim_cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
					      CUevent event)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_event(event, false, &content);

	return change(hGraphExec, hNode, made, &content);
}

CUresult sim_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				      CUgraphNodeParams *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_any(nodeParams, &content);

	return change(hGraphExec, hNode, made, &content);
}

CUresult sim_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
				   unsigned int isEnabled)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (sim_is_locked(hGraphExec, SIM_EXEC)) {
		size_t at = step_of(hGraphExec, hNode);

		if (at < hGraphExec->steps->count &&
		    hGraphExec->steps->entries[at].type <= CU_GRAPH_NODE_TYPE_MEMSET) {
			struct sim_steps *steps = copy_steps(hGraphExec->steps);

			steps->entries[at].enabled = isEnabled != 0;
			install(hGraphExec, steps);
			result = CUDA_SUCCESS;
		}
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
				   unsigned int *isEnabled)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (isEnabled && sim_is_locked(hGraphExec, SIM_EXEC)) {
		size_t at = step_of(hGraphExec, hNode);

		if (at < hGraphExec->steps->count) {
			*isEnabled = hGraphExec->steps->entries[at].enabled;
			result = CUDA_SUCCESS;
		}
	}
	sim_unlock();
	return result;
}

/* What keeps one graph's steps from taking the place of another's. */
static CUgraphExecUpdateResult compare(const struct sim_steps *before,
				       const struct sim_steps *after)
{
	if (before->count != after->count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (size_t i = 0; i < before->count; i++) {
		if (before->entries[i].type != after->entries[i].type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
	}
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult update_locked(struct CUgraphExec_st *exec,
					     const struct CUgraph_st *graph)
{
	struct sim_steps *steps = sim_steps_new_locked(graph);
	CUgraphExecUpdateResult result =
		steps ? compare(exec->steps, steps) : CU_GRAPH_EXEC_UPDATE_ERROR;

	if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
		if (steps)
			sim_steps_unref_locked(steps);
		return result;
	}
	for (size_t i = 0; i < steps->count; i++) {
		steps->entries[i].node_id = exec->steps->entries[i].node_id;
		steps->entries[i].enabled = exec->steps->entries[i].enabled;
	}
	install(exec, steps);
	return result;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
				  CUgraphExecUpdateResultInfo *resultInfo)
{
	CUgraphExecUpdateResultInfo info = { .result = CU_GRAPH_EXEC_UPDATE_ERROR };
	bool valid;

	sim_lock();
	valid = sim_is_locked(hGraphExec, SIM_EXEC) && sim_is_locked(hGraph, SIM_GRAPH);
	if (valid)
		info.result = update_locked(hGraphExec, hGraph);
	sim_unlock();
	if (!valid || !resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	*resultInfo = info;
	return info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
							   : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult sim_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
			       CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info = { .result = CU_GRAPH_EXEC_UPDATE_ERROR };
	CUresult result = sim_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);

	if (hErrorNode_out)
		*hErrorNode_out = info.error_node;
	if (updateResult_out)
		*updateResult_out = info.result;
	return result;
}
