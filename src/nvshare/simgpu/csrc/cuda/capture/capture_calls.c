/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that begin, end and look at captures. Captures are capture.c's; protected by sim.lock.
 */
#include <stdlib.h>

#include "capture/capture.h"
#include "stream/stream.h"

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph graph,
		      const CUgraphNode *dependencies, size_t count)
{
	struct CUstream_st *stream;
	CUresult result;

	if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED ||
	    (count > 0 && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(handle, &stream);
	if (result == CUDA_SUCCESS && stream == stream->context->legacy)
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (result == CUDA_SUCCESS && stream->capture)
		result = CUDA_ERROR_ILLEGAL_STATE;
	if (result == CUDA_SUCCESS && graph && !sim_is_locked(graph, SIM_GRAPH))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS) {
		sim_capture_begin_locked(stream, mode, graph);
		sim_capture_set_tail_locked(stream, dependencies, count, true);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	return begin(hStream, mode, NULL, NULL, 0);
}

CUresult sim_cuStreamBeginCapture(CUstream hStream)
{
	return begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					 const CUgraphNode *dependencies,
					 const CUgraphEdgeData *dependencyData,
					 size_t numDependencies, CUstreamCaptureMode mode)
{
	if (!hGraph || dependencyData)
		return hGraph ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	return begin(hStream, mode, hGraph, dependencies, numDependencies);
}

static bool is_depended_on(const struct CUgraph_st *graph, const struct CUgraphNode_st *node)
{
	for (const struct CUgraphNode_st *other = graph->first; other; other = other->next) {
		for (size_t i = 0; i < other->before_count; i++) {
			if (other->before[i] == node)
				return true;
		}
	}
	return false;
}

/* Whether the first stream, at the end, comes after everything that was captured. */
static bool is_joined(const struct sim_capture *capture, const struct CUstream_st *origin)
{
	for (const struct CUgraphNode_st *node = capture->graph->first; node; node = node->next) {
		bool reached =
			node->id < capture->first_node_id || is_depended_on(capture->graph, node);

		for (size_t i = 0; !reached && i < origin->capture_tail_count; i++)
			reached = origin->capture_tail[i] == node;
		if (!reached)
			return false;
	}
	return true;
}

static CUresult end_locked(struct CUstream_st *stream, CUgraph *graph)
{
	struct sim_capture *capture = stream->capture;
	CUresult result = CUDA_SUCCESS;

	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->members[0] != stream) {
		capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread_id())
		result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	else if (capture->invalidated)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(capture, stream))
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (graph)
		*graph = result == CUDA_SUCCESS ? capture->graph : NULL;
	sim_capture_end_locked(capture, result != CUDA_SUCCESS || !graph);
	return result;
}

CUresult sim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct CUstream_st *stream;
	CUresult result;

	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		result = end_locked(stream, phGraph);
	sim_unlock();
	return result;
}

static CUstreamCaptureStatus status_of(const struct CUstream_st *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* The legacy stream cannot be asked about beside a capture that it would have to wait for. */
static CUresult check_question_locked(const struct CUstream_st *stream)
{
	if (stream != stream->context->legacy || !sim_capture_blocks_locked(stream->context))
		return CUDA_SUCCESS;
	return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult sim_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct CUstream_st *stream;
	CUresult result;

	if (!captureStatus)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		result = check_question_locked(stream);
	if (result == CUDA_SUCCESS)
		*captureStatus = status_of(stream);
	sim_unlock();
	return result;
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				       cuuint64_t *id_out, CUgraph *graph_out,
				       const CUgraphNode **dependencies_out,
				       const CUgraphEdgeData **edgeData_out,
				       size_t *numDependencies_out)
{
	struct CUstream_st *stream;
	CUresult result;

	if (!captureStatus_out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		result = check_question_locked(stream);
	if (result == CUDA_SUCCESS) {
		*captureStatus_out = status_of(stream);
		if (edgeData_out)
			*edgeData_out = NULL;
	}
	if (result == CUDA_SUCCESS && *captureStatus_out == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		if (id_out)
			*id_out = stream->capture->id;
		if (graph_out)
			*graph_out = stream->capture->graph;
		if (dependencies_out)
			*dependencies_out = stream->capture_tail;
		if (numDependencies_out)
			*numDependencies_out = stream->capture_tail_count;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				       cuuint64_t *id_out, CUgraph *graph_out,
				       const CUgraphNode **dependencies_out,
				       size_t *numDependencies_out)
{
	return sim_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
					     dependencies_out, NULL, numDependencies_out);
}

CUresult sim_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				    cuuint64_t *id_out)
{
	return sim_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL,
					     NULL);
}

CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
						  const CUgraphEdgeData *dependencyData,
						  size_t numDependencies, unsigned int flags)
{
	struct CUstream_st *stream;
	CUresult result;

	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (numDependencies > 0 && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	if (dependencyData)
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS && !stream->capture)
		result = CUDA_ERROR_ILLEGAL_STATE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < numDependencies; i++) {
		if (!sim_is_locked(dependencies[i], SIM_NODE) ||
		    dependencies[i]->graph != stream->capture->graph)
			result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS)
		sim_capture_set_tail_locked(stream, dependencies, numDependencies,
					    flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	sim_unlock();
	return result;
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
					       size_t numDependencies, unsigned int flags)
{
	return sim_cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL,
							numDependencies, flags);
}
