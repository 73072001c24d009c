/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs by hand. */
#include "semantics.h"

void graphs(void)
{
	CUDA_KERNEL_NODE_PARAMS_v2 kernel = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	CUDA_MEMSET_NODE_PARAMS_v1 set = {
		.element_bytes = 4, .width = 4, .height = 1, .value = 6
	};
	CUgraph graph, clone;
	CUgraphExec exec;
	CUgraphNode a, b, c, listed[8];
	CUgraphExecUpdateResultInfo info;
	CUdeviceptr p;
	uint32_t value = 4, got[4];
	uint64_t n = 2;
	void *params[] = { &p, &value, &n };
	size_t count = 0;

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	kernel.function = fill;
	kernel.params = params;
	set.dst = p;
	SHOW(cuGraphCreate(&graph, 1));
	SHOW(cuGraphCreate(&graph, 0));
	SHOW(cuGraphAddMemsetNode(&a, graph, NULL, 0, &set, context));
	SHOW(cuGraphAddKernelNode_v2(&b, graph, &a, 1, &kernel));
	SHOW(cuGraphAddEmptyNode(&c, graph, &b, 1));
	SHOW(cuGraphAddDependencies(graph, &a, &a, 1));
	SHOW(cuGraphAddDependencies(graph, &a, &c, 1));
	SHOW(cuGraphGetNodes(graph, NULL, &count));
	TRUTH(count == 3);
	count = 8;
	SHOW(cuGraphGetRootNodes(graph, listed, &count));
	TRUTH(count == 1 && listed[0] == a);
	SHOW(cuGraphClone(&clone, graph));
	SHOW(cuGraphNodeFindInClone(&c, b, clone));
	TRUTH(c != b);
	SHOW(cuGraphInstantiateWithFlags(&exec, graph, 0));
	SHOW(cuGraphUpload(exec, stream));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemcpyDtoH_v2(got, p, sizeof(got)));
	TRUTH(got[0] == 4 && got[1] == 4 && got[2] == 6);
	value = 5;
	SHOW(cuGraphExecKernelNodeSetParams_v2(exec, b, &kernel));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemcpyDtoH_v2(got, p, sizeof(got)));
	TRUTH(got[0] == 5 && got[2] == 6);
	SHOW(cuGraphExecUpdate_v2(exec, clone, &info));
	TRUTH(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	SHOW(cuGraphLaunch(exec, NULL));
	SHOW(cuMemcpyDtoH_v2(got, p, sizeof(got)));
	TRUTH(got[0] == 4);
	SHOW(cuGraphDestroyNode(b));
	SHOW(cuGraphExecUpdate_v2(exec, graph, &info));
	SHOW(cuGraphLaunch(NULL, stream));
	SHOW(cuGraphExecDestroy(exec));
	SHOW(cuGraphDestroy(graph));
}

void graph_memory(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = { .pool = { .type = CU_MEM_ALLOCATION_TYPE_PINNED },
					      .bytes = MIB(4) };
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode a, b;
	char host[16];

	begin();
	params.pool.location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	MUST(cuGraphCreate(&graph, 0));
	SHOW(cuGraphAddMemAllocNode(&a, graph, NULL, 0, &params));
	TRUTH(params.ptr != 0);
	SHOW(cuGraphInstantiateWithFlags(&exec, graph, 0));
	SHOW(cuMemcpyDtoH_v2(host, params.ptr, 16));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(launch_fill(params.ptr, 5, 16, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemcpyDtoH_v2(host, params.ptr, 16));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(cuMemFreeAsync(params.ptr, stream));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(cuMemFree_v2(params.ptr));
	SHOW(cuGraphExecDestroy(exec));
	MUST(cuGraphCreate(&graph, 0));
	MUST(cuGraphAddMemAllocNode(&a, graph, NULL, 0, &params));
	SHOW(cuGraphAddMemFreeNode(&b, graph, &a, 1, params.ptr));
	SHOW(cuGraphInstantiateWithFlags(&exec, graph, 0));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(cuStreamSynchronize(stream));
}
