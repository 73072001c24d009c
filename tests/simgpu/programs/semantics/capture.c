/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: their making, joining and ending. */
#include "semantics.h"

static CUresult begin_capture(CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(stream, mode);
}

void capturing(void)
{
	CUstreamCaptureStatus status;
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	CUdeviceptr p;
	uint32_t got[4];
	size_t count = 8;

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	SHOW(cuStreamEndCapture(stream, &graph));
	SHOW(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SHOW(begin_capture(7));
	SHOW(begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL));
	SHOW(begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL));
	SHOW(cuStreamIsCapturing(stream, &status));
	TRUTH(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	SHOW(launch_fill(p, 3, 4, stream));
	SHOW(cuMemsetD32Async(p, 8, 1, stream));
	SHOW(cuStreamEndCapture(other, &graph));
	SHOW(cuStreamEndCapture(stream, &graph));
	SHOW(cuStreamIsCapturing(stream, &status));
	TRUTH(status == CU_STREAM_CAPTURE_STATUS_NONE);
	SHOW(cuGraphGetNodes(graph, nodes, &count));
	TRUTH(count == 2);
	SHOW(cuGraphNodeGetType(nodes[0], &type));
	TRUTH(type == CU_GRAPH_NODE_TYPE_KERNEL);
	SHOW(cuGraphInstantiateWithFlags(&exec, graph, 0));
	SHOW(cuGraphLaunch(exec, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemcpyDtoH_v2(got, p, sizeof(got)));
	TRUTH(got[0] == 8 && got[1] == 3);
	SHOW(cuGraphExecDestroy(exec));
	SHOW(cuGraphDestroy(graph));
}

void capture_create_vmm(void)
{
	CUmemAllocationProp_v1 prop = on_device();
	CUmemAccessDesc_v1 access = all_rights();
	CUmemGenericAllocationHandle_v1 handle;
	CUgraph graph;
	CUdeviceptr at;

	begin();
	MUST(cuMemAddressReserve(&at, MIB(2), 0, 0, 0));
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL));
	SHOW(cuMemCreate(&handle, MIB(2), &prop, 0));
	SHOW(cuMemMap(at, MIB(2), 0, handle, 0));
	SHOW(cuMemSetAccess(at, MIB(2), &access, 1));
	SHOW(cuMemUnmap(at, MIB(2)));
	SHOW(cuMemRelease(handle));
	SHOW(cuStreamEndCapture(stream, &graph));
}

static void *from_other_thread(void *argument)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	CUdeviceptr p;

	(void)argument;
	MUST(cuCtxSetCurrent(context));
	SHOW(cuThreadExchangeStreamCaptureMode(&mode));
	TRUTH(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	SHOW(cuMemAlloc_v2(&p, 4096));
	mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	SHOW(cuThreadExchangeStreamCaptureMode(&mode));
	SHOW(cuMemAlloc_v2(&p, 4096));
	return NULL;
}

static void run_beside(CUstreamCaptureMode mode)
{
	pthread_t thread;
	CUgraph graph;

	begin();
	MUST(begin_capture(mode));
	pthread_create(&thread, NULL, from_other_thread, NULL);
	pthread_join(thread, NULL);
	SHOW(cuStreamEndCapture(stream, &graph));
}

void capture_beside_global(void)
{
	run_beside(CU_STREAM_CAPTURE_MODE_GLOBAL);
}

void capture_beside_local(void)
{
	run_beside(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void *end_elsewhere(void *argument)
{
	MUST(cuCtxSetCurrent(context));
	SHOW(cuStreamEndCapture(stream, argument));
	return NULL;
}

void capture_wrong_thread(void)
{
	pthread_t thread;
	CUgraph graph;

	begin();
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	pthread_create(&thread, NULL, end_elsewhere, &graph);
	pthread_join(thread, NULL);
	SHOW(cuStreamEndCapture(stream, &graph));
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED));
	pthread_create(&thread, NULL, end_elsewhere, &graph);
	pthread_join(thread, NULL);
}

void capture_fork_join(void)
{
	CUstreamCaptureStatus status;
	CUevent fork_event, join_event, unused;
	CUgraphNode from[8], to[8];
	CUgraph graph;
	CUdeviceptr p;
	size_t count;

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	MUST(cuEventCreate(&fork_event, 0));
	MUST(cuEventCreate(&join_event, 0));
	MUST(cuEventCreate(&unused, 0));
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL));
	SHOW(cuStreamWaitEvent(stream, unused, 0));
	SHOW(launch_fill(p, 1, 1, stream));
	SHOW(cuEventRecord(fork_event, stream));
	SHOW(cuStreamWaitEvent(other, fork_event, 0));
	SHOW(cuStreamIsCapturing(other, &status));
	TRUTH(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	SHOW(launch_fill(p, 1, 1, other));
	SHOW(launch_fill(p, 1, 1, stream));
	SHOW(cuEventRecord(join_event, other));
	SHOW(cuStreamWaitEvent(stream, join_event, 0));
	SHOW(launch_fill(p, 1, 1, stream));
	SHOW(cuStreamEndCapture(other, &graph));
	SHOW(cuStreamEndCapture(stream, &graph));
	SHOW(cuStreamIsCapturing(other, &status));
	TRUTH(status == CU_STREAM_CAPTURE_STATUS_NONE);
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL));
	MUST(launch_fill(p, 1, 1, stream));
	MUST(cuEventRecord(fork_event, stream));
	MUST(cuStreamWaitEvent(other, fork_event, 0));
	MUST(launch_fill(p, 1, 1, other));
	MUST(launch_fill(p, 1, 1, stream));
	MUST(cuEventRecord(join_event, other));
	MUST(cuStreamWaitEvent(stream, join_event, 0));
	MUST(launch_fill(p, 1, 1, stream));
	SHOW(cuStreamEndCapture(stream, &graph));
	count = 8;
	SHOW(cuGraphGetEdges(graph, from, to, &count));
	TRUTH(count == 4);
	SHOW(cuEventQuery(join_event));
	SHOW(cuEventSynchronize(join_event));
	SHOW(cuStreamWaitEvent(other, join_event, 0));
	SHOW(cuEventRecord(join_event, other));
	SHOW(cuEventSynchronize(join_event));
}

void capture_unjoined(void)
{
	CUevent fork_event;
	CUgraph graph;
	CUdeviceptr p;

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	MUST(cuEventCreate(&fork_event, 0));
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL));
	MUST(launch_fill(p, 1, 1, stream));
	MUST(cuEventRecord(fork_event, stream));
	MUST(cuStreamWaitEvent(other, fork_event, 0));
	SHOW(launch_fill(p, 1, 1, other));
	SHOW(cuStreamEndCapture(stream, &graph));
	TRUTH(graph == NULL);
	SHOW(launch_fill(p, 1, 1, other));
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL));
	MUST(launch_fill(p, 1, 1, stream));
	MUST(cuEventRecord(fork_event, stream));
	MUST(cuStreamWaitEvent(other, fork_event, 0));
	SHOW(cuStreamEndCapture(stream, &graph));
}

void capture_event_inside(void)
{
	CUstreamCaptureStatus status;
	CUevent event;
	CUgraph graph;
	CUdeviceptr p;

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	MUST(cuEventCreate(&event, 0));
	MUST(begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(launch_fill(p, 1, 1, stream));
	MUST(cuEventRecord(event, stream));
	SHOW(cuEventQuery(event));
	SHOW(cuStreamIsCapturing(stream, &status));
	printf("%s: status %d\n", now, status);
	SHOW(cuEventSynchronize(event));
	SHOW(cuStreamEndCapture(stream, &graph));
}
