/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of what may change the memory of graphs. How much that is, only the driver knows; it is
 * asked after each such call, once a graph with memory nodes has been made. Adding a node and
 * instantiating also look at the memory that nodes name. No state.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/pass.h"
#include "hooks/look.h"
#include "memory/memory.h"

static void measure(void)
{
	if (!atomic_load_explicit(&nvs_memory_graphs_allocate, memory_order_relaxed))
		return;
	NVS_EACH_DEVICE(device, UINT64_MAX)
		nvs_memory_graphs_ran(device);
}

/* The answer of `call`, which looks at device memory. */
#define LOOKING(call)                                            \
	__extension__({                                          \
		struct nvs_pass pass_;                           \
		CUresult result_ = nvs_look_enter(&pass_, NULL); \
                                                                 \
		if (result_ == CUDA_SUCCESS) {                   \
			result_ = call;                          \
			nvs_gate_leave(&pass_, result_);         \
		}                                                \
		result_;                                         \
	})

static CUresult measured(CUresult result)
{
	measure();
	return result;
}

static CUresult added(CUresult result, int type)
{
	if (result == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		atomic_store(&nvs_memory_graphs_allocate, true);
	return result;
}

NVS_HOOK(cuGraphAddMemAllocNode, CUgraphNode *phGraphNode, CUgraph hGraph,
	 const CUgraphNode *dependencies, size_t numDependencies,
	 CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	return added(NVS_CALL(cuGraphAddMemAllocNode, phGraphNode, hGraph, dependencies,
			      numDependencies, nodeParams),
		     CU_GRAPH_NODE_TYPE_MEM_ALLOC);
}

NVS_HOOK(cuGraphAddMemFreeNode, CUgraphNode *phGraphNode, CUgraph hGraph,
	 const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
	return NVS_CALL(cuGraphAddMemFreeNode, phGraphNode, hGraph, dependencies, numDependencies,
			dptr);
}

NVS_HOOK(cuGraphAddNode, CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	 size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	return added(LOOKING(NVS_CALL(cuGraphAddNode, phGraphNode, hGraph, dependencies,
				      numDependencies, nodeParams)),
		     nodeParams ? nodeParams->type : 0);
}

#define ADD_NODE(symbol)                                                                     \
	NVS_HOOK(symbol, CUgraphNode *phGraphNode, CUgraph hGraph,                           \
		 const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,     \
		 size_t numDependencies, CUgraphNodeParams *nodeParams)                      \
	{                                                                                    \
		return added(LOOKING(NVS_CALL(symbol, phGraphNode, hGraph, dependencies,     \
					      dependencyData, numDependencies, nodeParams)), \
			     nodeParams ? nodeParams->type : 0);                             \
	}

ADD_NODE(cuGraphAddNode_v2)
ADD_NODE(cuGraphAddNode_v3)

#define INSTANTIATE(symbol)                                                                  \
	NVS_HOOK(symbol, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, \
		 char *logBuffer, size_t bufferSize)                                         \
	{                                                                                    \
		return measured(LOOKING(NVS_CALL(symbol, phGraphExec, hGraph, phErrorNode,   \
						 logBuffer, bufferSize)));                   \
	}

INSTANTIATE(cuGraphInstantiate)
INSTANTIATE(cuGraphInstantiate_v2)

NVS_HOOK(cuGraphInstantiateWithFlags, CUgraphExec *phGraphExec, CUgraph hGraph,
	 unsigned long long flags)
{
	return measured(LOOKING(NVS_CALL(cuGraphInstantiateWithFlags, phGraphExec, hGraph, flags)));
}

/* With UPLOAD it also does what cuGraphUpload does, and that is work. */
static CUresult instantiate(CUresult (*real)(CUgraphExec *, CUgraph,
					     CUDA_GRAPH_INSTANTIATE_PARAMS *),
			    CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params,
			    CUstream stream)
{
	struct nvs_pass pass;
	CUresult result;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	if (!params || !(params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		return measured(LOOKING(real(exec, graph, params)));
	result = nvs_gate_enter(&pass, stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = real(exec, graph, params);
	nvs_gate_leave(&pass, result);
	return measured(result);
}

NVS_HOOK(cuGraphInstantiateWithParams, CUgraphExec *phGraphExec, CUgraph hGraph,
	 CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return instantiate(NVS_REAL(cuGraphInstantiateWithParams), phGraphExec, hGraph,
			   instantiateParams,
			   instantiateParams ? instantiateParams->upload_stream : NULL);
}

NVS_HOOK(cuGraphInstantiateWithParams_ptsz, CUgraphExec *phGraphExec, CUgraph hGraph,
	 CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return instantiate(
		NVS_REAL(cuGraphInstantiateWithParams_ptsz), phGraphExec, hGraph, instantiateParams,
		instantiateParams ? NVS_PER_THREAD(instantiateParams->upload_stream) : NULL);
}

NVS_HOOK(cuGraphExecDestroy, CUgraphExec hGraphExec)
{
	return measured(NVS_CALL(cuGraphExecDestroy, hGraphExec));
}

NVS_HOOK(cuDeviceGraphMemTrim, CUdevice device)
{
	return measured(NVS_CALL(cuDeviceGraphMemTrim, device));
}

NVS_HOOK(cuDeviceSetGraphMemAttribute, CUdevice device, CUgraphMem_attribute attr, void *value)
{
	return measured(NVS_CALL(cuDeviceSetGraphMemAttribute, device, attr, value));
}
