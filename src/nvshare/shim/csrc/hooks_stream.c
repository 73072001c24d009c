/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of streams, and the begin and end of captures: none of them waits for the gate. No state
 * of its own.
 */
#include "capture.h"
#include "device.h"
#include "driver.h"
#include "pass.h"

static CUresult nvs_destroy_stream(CUresult (*real)(CUstream), CUstream stream)
{
	bool captures = nvs_captures_going_on();
	CUresult result;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	if (captures)
		nvs_capture_ending();
	result = real(stream);
	if (captures)
		nvs_capture_ended(stream, result == CUDA_SUCCESS);
	nvs_device_handles_changed();
	return result;
}

NVS_HOOK(cuStreamDestroy, CUstream hStream)
{
	return nvs_destroy_stream(NVS_REAL(cuStreamDestroy), hStream);
}

NVS_HOOK(cuStreamDestroy_v2, CUstream hStream)
{
	return nvs_destroy_stream(NVS_REAL(cuStreamDestroy_v2), hStream);
}

#define NVS_BEGIN(symbol, stream, arguments, ...)        \
	NVS_HOOK(symbol, __VA_ARGS__)                    \
	{                                                \
		struct nvs_capture *capture;             \
		CUresult result;                         \
                                                         \
		if (!NVS_REAL(symbol))                   \
			return CUDA_ERROR_NOT_FOUND;     \
		capture = nvs_capture_begin(stream);     \
		if (!capture)                            \
			return CUDA_ERROR_OUT_OF_MEMORY; \
		result = NVS_REAL(symbol) arguments;     \
		nvs_capture_begun(capture, result);      \
		return result;                           \
	}

NVS_BEGIN(cuStreamBeginCapture, hStream, (hStream), CUstream hStream)
NVS_BEGIN(cuStreamBeginCapture_ptsz, NVS_PER_THREAD(hStream), (hStream), CUstream hStream)
NVS_BEGIN(cuStreamBeginCapture_v2, hStream, (hStream, mode), CUstream hStream,
	  CUstreamCaptureMode mode)
NVS_BEGIN(cuStreamBeginCapture_v2_ptsz, NVS_PER_THREAD(hStream), (hStream, mode), CUstream hStream,
	  CUstreamCaptureMode mode)
NVS_BEGIN(cuStreamBeginCaptureToGraph, hStream,
	  (hStream, hGraph, dependencies, dependencyData, numDependencies, mode), CUstream hStream,
	  CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	  size_t numDependencies, CUstreamCaptureMode mode)
NVS_BEGIN(cuStreamBeginCaptureToGraph_ptsz, NVS_PER_THREAD(hStream),
	  (hStream, hGraph, dependencies, dependencyData, numDependencies, mode), CUstream hStream,
	  CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	  size_t numDependencies, CUstreamCaptureMode mode)
NVS_BEGIN(cuStreamBeginRecaptureToGraph, hStream, (hStream, mode, hGraph, callbackFunc, userData),
	  CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
	  CUgraphRecaptureCallback callbackFunc, void *userData)
NVS_BEGIN(cuStreamBeginRecaptureToGraph_ptsz, NVS_PER_THREAD(hStream),
	  (hStream, mode, hGraph, callbackFunc, userData), CUstream hStream,
	  CUstreamCaptureMode mode, CUgraph hGraph, CUgraphRecaptureCallback callbackFunc,
	  void *userData)
NVS_BEGIN(cuStreamBeginCaptureToCig, hStream, (hStream, streamCigCaptureParams), CUstream hStream,
	  CUstreamCigCaptureParams *streamCigCaptureParams)
NVS_BEGIN(cuStreamBeginCaptureToCig_ptsz, NVS_PER_THREAD(hStream),
	  (hStream, streamCigCaptureParams), CUstream hStream,
	  CUstreamCigCaptureParams *streamCigCaptureParams)

#define NVS_END(symbol, stream, arguments, ...)      \
	NVS_HOOK(symbol, __VA_ARGS__)                \
	{                                            \
		CUresult result;                     \
                                                     \
		if (!NVS_REAL(symbol))               \
			return CUDA_ERROR_NOT_FOUND; \
		nvs_capture_ending();                \
		result = NVS_REAL(symbol) arguments; \
		nvs_capture_ended(stream, false);    \
		return result;                       \
	}

NVS_END(cuStreamEndCapture, hStream, (hStream, phGraph), CUstream hStream, CUgraph *phGraph)
NVS_END(cuStreamEndCapture_ptsz, NVS_PER_THREAD(hStream), (hStream, phGraph), CUstream hStream,
	CUgraph *phGraph)
NVS_END(cuStreamEndCaptureToCig, hStream, (hStream), CUstream hStream)
NVS_END(cuStreamEndCaptureToCig_ptsz, NVS_PER_THREAD(hStream), (hStream), CUstream hStream)
