/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each call does to a capture that is going on: the call, what becomes of the capture, and how
 * it ends.
 */
#include "semantics.h"

static CUstream legacy; /* NULL */

static void never_called(CUstream where, CUresult status, void *data)
{
	(void)where, (void)status, (void)data;
}

#define CAPTURE_CASE(name, in, mode, call)               \
	void name(void)                                  \
	{                                                \
		CUstreamCaptureStatus status;            \
		CUdeviceptr p, q = 0;                    \
		CUgraph graph;                           \
		CUevent event;                           \
		char host[16];                           \
		size_t free_bytes, total;                \
                                                         \
		(void)q, (void)host;                     \
		(void)free_bytes, (void)total;           \
		begin();                                 \
		MUST(cuMemAlloc_v2(&p, 4096));           \
		MUST(cuEventCreate(&event, 0));          \
		MUST(cuEventRecord(event, other));       \
		MUST(cuCtxSynchronize());                \
		MUST(cuStreamBeginCapture_v2(in, mode)); \
		SHOW(call);                              \
		SHOW(cuStreamIsCapturing(in, &status));  \
		printf("%s: status %d\n", now, status);  \
		SHOW(launch_fill(p, 3, 4, in));          \
		SHOW(cuStreamEndCapture(in, &graph));    \
	}

CAPTURE_CASE(capture_context_sync, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuCtxSynchronize())
CAPTURE_CASE(capture_context_sync_relaxed, stream, CU_STREAM_CAPTURE_MODE_RELAXED,
	     cuCtxSynchronize())
CAPTURE_CASE(capture_stream_sync, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuStreamSynchronize(stream))
CAPTURE_CASE(capture_stream_query, stream, CU_STREAM_CAPTURE_MODE_RELAXED, cuStreamQuery(stream))
CAPTURE_CASE(capture_other_query, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuStreamQuery(other))
CAPTURE_CASE(capture_other_sync, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuStreamSynchronize(other))
CAPTURE_CASE(capture_event_query, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuEventQuery(event))
CAPTURE_CASE(capture_event_query_relaxed, stream, CU_STREAM_CAPTURE_MODE_RELAXED,
	     cuEventQuery(event))
CAPTURE_CASE(capture_event_sync, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuEventSynchronize(event))
CAPTURE_CASE(capture_alloc, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuMemAlloc_v2(&q, 4096))
CAPTURE_CASE(capture_alloc_relaxed, stream, CU_STREAM_CAPTURE_MODE_RELAXED, cuMemAlloc_v2(&q, 4096))
CAPTURE_CASE(capture_free, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuMemFree_v2(p))
CAPTURE_CASE(capture_info, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemGetInfo_v2(&free_bytes, &total))
CAPTURE_CASE(capture_legacy_launch, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     launch_fill(p, 1, 1, legacy))
CAPTURE_CASE(capture_legacy_launch_relaxed, stream, CU_STREAM_CAPTURE_MODE_RELAXED,
	     launch_fill(p, 1, 1, legacy))
CAPTURE_CASE(capture_legacy_query, stream, CU_STREAM_CAPTURE_MODE_RELAXED, cuStreamQuery(legacy))
CAPTURE_CASE(capture_legacy_is_capturing, stream, CU_STREAM_CAPTURE_MODE_RELAXED,
	     cuStreamIsCapturing(legacy, &status))
CAPTURE_CASE(capture_sync_copy, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuMemcpyDtoH_v2(host, p, 16))
CAPTURE_CASE(capture_sync_copy_relaxed, stream, CU_STREAM_CAPTURE_MODE_RELAXED,
	     cuMemcpyDtoH_v2(host, p, 16))
CAPTURE_CASE(capture_async_copy, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemcpyDtoHAsync_v2(host, p, 16, stream))
CAPTURE_CASE(capture_memset, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuMemsetD8_v2(p, 1, 16))
CAPTURE_CASE(capture_wait_outside, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuStreamWaitEvent(stream, event, 0))
CAPTURE_CASE(capture_other_launch, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     launch_fill(p, 1, 1, other))
CAPTURE_CASE(capture_create_stream, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuStreamCreate(&other, 0))
CAPTURE_CASE(capture_create_event, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuEventCreate(&event, 0))
CAPTURE_CASE(capture_destroy_event, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuEventDestroy_v2(event))
CAPTURE_CASE(capture_load_module, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuModuleLoadData(&module, read_ptx()))
CAPTURE_CASE(capture_host_alloc, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemHostAlloc((void **)&q, 4096, 0))
CAPTURE_CASE(capture_reserve, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemAddressReserve(&q, MIB(2), 0, 0, 0))
CAPTURE_CASE(capture_alloc_async, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemAllocAsync(&q, 4096, stream))
CAPTURE_CASE(capture_beside_copy, other, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemcpyDtoH_v2(host, p, 16))
CAPTURE_CASE(capture_beside_copy_relaxed, other, CU_STREAM_CAPTURE_MODE_RELAXED,
	     cuMemcpyDtoH_v2(host, p, 16))
CAPTURE_CASE(capture_beside_memset, other, CU_STREAM_CAPTURE_MODE_GLOBAL, cuMemsetD8_v2(p, 1, 16))
CAPTURE_CASE(capture_beside_launch, other, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     launch_fill(p, 1, 1, legacy))
CAPTURE_CASE(capture_beside_query, other, CU_STREAM_CAPTURE_MODE_GLOBAL, cuStreamQuery(legacy))
CAPTURE_CASE(capture_beside_query_relaxed, other, CU_STREAM_CAPTURE_MODE_RELAXED,
	     cuStreamQuery(legacy))
CAPTURE_CASE(capture_beside_context_sync, other, CU_STREAM_CAPTURE_MODE_RELAXED, cuCtxSynchronize())
CAPTURE_CASE(capture_beside_wait, other, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuStreamWaitEvent(stream, event, 0))
CAPTURE_CASE(capture_beside_record, other, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuEventRecord(event, stream))
CAPTURE_CASE(capture_beside_free_async, other, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemFreeAsync(p, stream))
CAPTURE_CASE(capture_beside_alloc_async, other, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemAllocAsync(&q, 4096, stream))
CAPTURE_CASE(capture_callback, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuStreamAddCallback(stream, never_called, 0, 0))
CAPTURE_CASE(capture_managed, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemAllocManaged(&q, 4096, CU_MEM_ATTACH_GLOBAL))
CAPTURE_CASE(capture_host_register, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuMemHostRegister_v2(host, 16, 0))
CAPTURE_CASE(capture_destroy_stream, stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	     cuStreamDestroy_v2(other))
CAPTURE_CASE(capture_unload_module, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, cuModuleUnload(module))
