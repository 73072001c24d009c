/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that make graphs and their nodes, and take them apart. Graphs are graph.c's; protected
 * by sim.lock.
 */
#include <stdlib.h>

#include "graph/graph_memory.h"
#include "graph/node_content.h"

static bool nodes_are_of_locked(const struct CUgraph_st *graph, const CUgraphNode *nodes,
				size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!sim_is_locked(nodes[i], SIM_NODE) || nodes[i]->graph != graph)
			return false;
		for (size_t k = 0; k < i; k++) {
			if (nodes[k] == nodes[i])
				return false;
		}
	}
	return true;
}

static CUresult add_locked(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
			   const struct sim_node_content *content)
{
	if (!sim_is_locked(graph, SIM_GRAPH) || !nodes_are_of_locked(graph, before, count))
		return CUDA_ERROR_INVALID_VALUE;
	*out = sim_node_add_locked(graph, content->type, &content->op);
	(*out)->copy = content->copy;
	sim_node_depend_locked(*out, before, count);
	return CUDA_SUCCESS;
}

/* Adds a node unless making its content has failed. */
static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
		    CUresult made, const struct sim_node_content *content)
{
	CUresult result;

	if (made != CUDA_SUCCESS)
		return made;
	if (!out || (count > 0 && !before))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = add_locked(out, graph, before, count, content);
	sim_unlock();
	return result;
}

CUresult sim_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	if (!phGraph || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*phGraph = sim_graph_new_locked(NULL);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroy(CUgraph hGraph)
{
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (sim_is_locked(hGraph, SIM_GRAPH) && !hGraph->is_child)
		sim_graph_free_locked(hGraph);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult sim_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	CUresult result = CUDA_SUCCESS;

	if (!phGraphClone)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(originalGraph, SIM_GRAPH))
		*phGraphClone = sim_graph_clone_locked(originalGraph);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_kernel(nodeParams, &content);

	return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	wide = sim_kernel_params_widen(nodeParams);
	return sim_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies,
					   &wide);
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  const CUDA_MEMCPY3D_v2 *copyParams, CUcontext ctx)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_copy(copyParams, ctx, &content);

	return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  const CUDA_MEMSET_NODE_PARAMS_v1 *memsetParams, CUcontext ctx)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_memset(memsetParams, ctx, &content);

	return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies, size_t numDependencies,
				const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_host(nodeParams, &content);

	return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				 const CUgraphNode *dependencies, size_t numDependencies)
{
	struct sim_node_content content = { .type = CU_GRAPH_NODE_TYPE_EMPTY,
					    .op = { .kind = SIM_OP_EMPTY } };

	return add(phGraphNode, hGraph, dependencies, numDependencies, CUDA_SUCCESS, &content);
}

CUresult sim_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       CUevent event)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_event(event, true, &content);

	return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
}

CUresult sim_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     CUevent event)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_event(event, false, &content);

	return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
}

CUresult sim_cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies,
				      const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made = sim_content_memop(nodeParams, &content);

	return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies,
				      CUgraph childGraph)
{
	struct sim_node_content content = { .type = CU_GRAPH_NODE_TYPE_GRAPH,
					    .op = { .kind = SIM_OP_EMPTY } };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!phGraphNode || (numDependencies > 0 && !dependencies))
		return result;
	sim_lock();
	if (sim_is_locked(childGraph, SIM_GRAPH) && childGraph != hGraph)
		result = add_locked(phGraphNode, hGraph, dependencies, numDependencies, &content);
	if (result == CUDA_SUCCESS) {
		(*phGraphNode)->child = sim_graph_clone_locked(childGraph);
		(*phGraphNode)->child->is_child = true;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				    const CUgraphNode *dependencies, size_t numDependencies,
				    CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct sim_node_content content = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
					    .op = { .kind = SIM_OP_ALLOC } };
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!phGraphNode || !nodeParams || nodeParams->bytes == 0 ||
	    nodeParams->pool.type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    nodeParams->pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sim_device_exists(nodeParams->pool.location.id))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	content.op.u.memory.bytes = nodeParams->bytes;
	content.op.u.memory.address = sim_graph_memory_reserve_locked(nodeParams->bytes);
	if (content.op.u.memory.address != 0)
		result = add_locked(phGraphNode, hGraph, dependencies, numDependencies, &content);
	if (result == CUDA_SUCCESS) {
		nodeParams->ptr = content.op.u.memory.address;
		(*phGraphNode)->alloc = malloc(sizeof(*nodeParams));
		*(*phGraphNode)->alloc = *nodeParams;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   CUdeviceptr dptr)
{
	struct sim_node_content content = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE,
					    .op = { .kind = SIM_OP_FREE } };
	bool of_graph;

	sim_lock();
	of_graph = sim_graph_memory_is_locked(dptr);
	sim_unlock();
	if (!of_graph)
		return CUDA_ERROR_INVALID_VALUE;
	content.op.u.memory.address = dptr;
	return add(phGraphNode, hGraph, dependencies, numDependencies, CUDA_SUCCESS, &content);
}

CUresult sim_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
			       const CUgraphNode *dependencies,
			       const CUgraphEdgeData *dependencyData, size_t numDependencies,
			       CUgraphNodeParams *nodeParams)
{
	struct sim_node_content content = { 0 };
	CUresult made;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (dependencyData)
		return CUDA_ERROR_NOT_SUPPORTED;
	switch (nodeParams->type) {
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return sim_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies,
						    numDependencies, nodeParams->u.graph.graph);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return sim_cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies,
						  numDependencies, &nodeParams->u.alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return sim_cuGraphAddMemFreeNode(phGraphNode, hGraph, dependencies, numDependencies,
						 nodeParams->u.free.ptr);
	default:
		made = sim_content_any(nodeParams, &content);
		return add(phGraphNode, hGraph, dependencies, numDependencies, made, &content);
	}
}

CUresult sim_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			    const CUgraphNode *dependencies, size_t numDependencies,
			    CUgraphNodeParams *nodeParams)
{
	return sim_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
				     nodeParams);
}

CUresult sim_cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph,
			       const CUgraphNode *dependencies,
			       const CUgraphEdgeData *dependencyData, size_t numDependencies,
			       CUgraphNodeParams *nodeParams)
{
	return sim_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData,
				     numDependencies, nodeParams);
}

CUresult sim_cuGraphDestroyNode(CUgraphNode hNode)
{
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (sim_is_locked(hNode, SIM_NODE) && hNode->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
	    hNode->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
		sim_node_remove_locked(hNode);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult sim_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				    size_t numDependencies)
{
	CUresult result = CUDA_SUCCESS;

	if (numDependencies > 0 && (!from || !to))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(hGraph, SIM_GRAPH))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < numDependencies; i++) {
		if (!nodes_are_of_locked(hGraph, &from[i], 1) ||
		    !nodes_are_of_locked(hGraph, &to[i], 1) || from[i] == to[i])
			result = CUDA_ERROR_INVALID_VALUE;
		else
			sim_node_depend_locked(to[i], &from[i], 1);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
				       const CUgraphNode *to, const CUgraphEdgeData *edgeData,
				       size_t numDependencies)
{
	return edgeData ? CUDA_ERROR_NOT_SUPPORTED
			: sim_cuGraphAddDependencies(hGraph, from, to, numDependencies);
}

CUresult sim_cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
				       const CUgraphNode *to, size_t numDependencies)
{
	CUresult result = CUDA_SUCCESS;

	if (numDependencies > 0 && (!from || !to))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(hGraph, SIM_GRAPH))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < numDependencies; i++) {
		if (!nodes_are_of_locked(hGraph, &from[i], 1) ||
		    !nodes_are_of_locked(hGraph, &to[i], 1) ||
		    !sim_node_independ_locked(to[i], from[i]))
			result = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					  const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					  size_t numDependencies)
{
	return edgeData ? CUDA_ERROR_NOT_SUPPORTED
			: sim_cuGraphRemoveDependencies(hGraph, from, to, numDependencies);
}
