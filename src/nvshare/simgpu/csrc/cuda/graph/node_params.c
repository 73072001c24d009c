/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and replacing the parameters of a graph's nodes. Graphs are graph.c's; protected by
 * sim.lock.
 */
#include <string.h>

#include "copy/copy.h"
#include "kernel/kernels.h"
#include "graph/node_content.h"

/* The node behind a handle if it is of a type, with the lock held on success. */
static bool lock_node(CUgraphNode node, CUgraphNodeType type, const void *answer)
{
	if (!answer)
		return false;
	sim_lock();
	if (sim_is_locked(node, SIM_NODE) && node->type == type)
		return true;
	sim_unlock();
	return false;
}

/* Replaces the content of a node unless making the new one has failed. */
static CUresult replace(CUgraphNode node, CUresult made, const struct sim_node_content *content)
{
	if (made != CUDA_SUCCESS)
		return made;
	if (!lock_node(node, content->type, content))
		return CUDA_ERROR_INVALID_VALUE;
	node->op = content->op;
	node->copy = content->copy;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
					   CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	const struct sim_launch *launch;

	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams))
		return CUDA_ERROR_INVALID_VALUE;
	launch = &hNode->op.u.launch;
	memset(nodeParams, 0, sizeof(*nodeParams));
	nodeParams->function = launch->function;
	memcpy(nodeParams->grid, launch->grid, sizeof(launch->grid));
	memcpy(nodeParams->block, launch->block, sizeof(launch->block));
	nodeParams->shared_bytes = launch->shared_bytes;
	nodeParams->context = hNode->op.context;
	for (unsigned int i = 0; i < launch->kernel->parameter_count; i++)
		hNode->parameters[i] =
			hNode->op.u.launch.parameters + sim_kernel_offset(launch->kernel, i);
	nodeParams->params = hNode->parameters;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;
	CUresult result = nodeParams ? sim_cuGraphKernelNodeGetParams_v2(hNode, &wide)
				     : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		memcpy(nodeParams, &wide, sizeof(*nodeParams));
	return result;
}

CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
					   const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_kernel(nodeParams, &content);

	return replace(hNode, made, &content);
}

CUresult sim_cuGraphKernelNodeSetParams(CUgraphNode hNode,
					const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	wide = sim_kernel_params_widen(nodeParams);
	return sim_cuGraphKernelNodeSetParams_v2(hNode, &wide);
}

CUresult sim_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D_v2 *nodeParams)
{
	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams))
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = hNode->copy.src_type ? hNode->copy : sim_copy_describe(&hNode->op.u.copy);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D_v2 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUcontext context;
	CUresult made;

	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams))
		return CUDA_ERROR_INVALID_VALUE;
	context = hNode->op.context;
	sim_unlock();
	made = sim_content_copy(nodeParams, context, &content);
	return replace(hNode, made, &content);
}

CUresult sim_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	const struct sim_memset *set;

	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams))
		return CUDA_ERROR_INVALID_VALUE;
	set = &hNode->op.u.memset;
	*nodeParams = (CUDA_MEMSET_NODE_PARAMS_v1){ set->address,	set->pitch, set->value,
						    set->element_bytes, set->width, set->height };
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemsetNodeSetParams(CUgraphNode hNode,
					const CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUcontext context;
	CUresult made;

	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams))
		return CUDA_ERROR_INVALID_VALUE;
	context = hNode->op.context;
	sim_unlock();
	made = sim_content_memset(nodeParams, context, &content);
	return replace(hNode, made, &content);
}

CUresult sim_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams))
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams =
		(CUDA_HOST_NODE_PARAMS_v1){ hNode->op.u.host.function, hNode->op.u.host.data };
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_host(nodeParams, &content);

	return replace(hNode, made, &content);
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *out)
{
	if (!lock_node(node, type, out))
		return CUDA_ERROR_INVALID_VALUE;
	*out = node->op.u.event.event;
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult set_event(CUgraphNode node, CUevent event, bool record)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_event(event, record, &content);

	return replace(node, made, &content);
}

CUresult sim_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return get_event(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult sim_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_event(hNode, event, true);
}

CUresult sim_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return get_event(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult sim_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_event(hNode, event, false);
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH, phGraph))
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = hNode->child;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out))
		return CUDA_ERROR_INVALID_VALUE;
	*params_out = *hNode->alloc;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	if (!lock_node(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr_out))
		return CUDA_ERROR_INVALID_VALUE;
	*dptr_out = hNode->op.u.memory.address;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_any(nodeParams, &content);

	return replace(hNode, made, &content);
}

CUresult sim_cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return sim_cuGraphNodeSetParams(hNode, nodeParams);
}
