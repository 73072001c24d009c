/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of streams, and the begin and end of captures. Of these only the begin of a capture
 * waits for the gate, and only where memory swaps: what is captured names memory, which then is
 * there, and stays there until the capture's end. No state of its own.
 */
#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/pass.h"
#include "gate/streams.h"
#include "hooks/look.h"

/* The driver drops a capture together with its stream. */
static CUresult destroy(CUresult (*real)(CUstream), CUstream stream)
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
	nvs_stream_ended();
	return result;
}

NVS_HOOK(cuStreamDestroy, CUstream hStream)
{
	return destroy(NVS_REAL(cuStreamDestroy), hStream);
}

NVS_HOOK(cuStreamDestroy_v2, CUstream hStream)
{
	return destroy(NVS_REAL(cuStreamDestroy_v2), hStream);
}

/*
 * A capture is in the list of those that a drain waits for before the pass is given back, so no
 * drain comes in between. A drain that goes on already waits for the pass: then the thread waits
 * outside for its end, and at the gate once more.
 */
static CUresult begin(CUstream stream, struct nvs_capture **capture)
{
	struct nvs_pass pass;
	bool enough;

	for (;;) {
		CUresult result = nvs_look_enter(&pass, nvs_device_of(stream));

		if (result != CUDA_SUCCESS)
			return result;
		enough = nvs_capture_begin(stream, capture);
		nvs_gate_leave(&pass, result);
		if (!enough)
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (*capture)
			return CUDA_SUCCESS;
		nvs_capture_await();
	}
}

#define BEGIN(symbol, stream, arguments, ...)        \
	NVS_HOOK(symbol, __VA_ARGS__)                \
	{                                            \
		struct nvs_capture *capture;         \
		CUresult result;                     \
                                                     \
		if (!NVS_REAL(symbol))               \
			return CUDA_ERROR_NOT_FOUND; \
		result = begin(stream, &capture);    \
		if (result != CUDA_SUCCESS)          \
			return result;               \
		result = NVS_REAL(symbol) arguments; \
		nvs_capture_begun(capture, result);  \
		return result;                       \
	}

BEGIN(cuStreamBeginCapture, hStream, (hStream), CUstream hStream)
BEGIN(cuStreamBeginCapture_ptsz, NVS_PER_THREAD(hStream), (hStream), CUstream hStream)
BEGIN(cuStreamBeginCapture_v2, hStream, (hStream, mode), CUstream hStream, CUstreamCaptureMode mode)
BEGIN(cuStreamBeginCapture_v2_ptsz, NVS_PER_THREAD(hStream), (hStream, mode), CUstream hStream,
      CUstreamCaptureMode mode)
BEGIN(cuStreamBeginCaptureToGraph, hStream,
      (hStream, hGraph, dependencies, dependencyData, numDependencies, mode), CUstream hStream,
      CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
      size_t numDependencies, CUstreamCaptureMode mode)
BEGIN(cuStreamBeginCaptureToGraph_ptsz, NVS_PER_THREAD(hStream),
      (hStream, hGraph, dependencies, dependencyData, numDependencies, mode), CUstream hStream,
      CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
      size_t numDependencies, CUstreamCaptureMode mode)
BEGIN(cuStreamBeginRecaptureToGraph, hStream, (hStream, mode, hGraph, callbackFunc, userData),
      CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
      CUgraphRecaptureCallback callbackFunc, void *userData)
BEGIN(cuStreamBeginRecaptureToGraph_ptsz, NVS_PER_THREAD(hStream),
      (hStream, mode, hGraph, callbackFunc, userData), CUstream hStream, CUstreamCaptureMode mode,
      CUgraph hGraph, CUgraphRecaptureCallback callbackFunc, void *userData)
BEGIN(cuStreamBeginCaptureToCig, hStream, (hStream, streamCigCaptureParams), CUstream hStream,
      CUstreamCigCaptureParams *streamCigCaptureParams)
BEGIN(cuStreamBeginCaptureToCig_ptsz, NVS_PER_THREAD(hStream), (hStream, streamCigCaptureParams),
      CUstream hStream, CUstreamCigCaptureParams *streamCigCaptureParams)

#define END(symbol, stream, arguments, ...)          \
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

END(cuStreamEndCapture, hStream, (hStream, phGraph), CUstream hStream, CUgraph *phGraph)
END(cuStreamEndCapture_ptsz, NVS_PER_THREAD(hStream), (hStream, phGraph), CUstream hStream,
    CUgraph *phGraph)
END(cuStreamEndCaptureToCig, hStream, (hStream), CUstream hStream)
END(cuStreamEndCaptureToCig_ptsz, NVS_PER_THREAD(hStream), (hStream), CUstream hStream)
