/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: a device counts as used before its first context exists, and a drain knows all of them.
 * No state of its own.
 */
#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/pass.h"
#include "memory/memory.h"

#define CREATE(symbol, arguments, ...)                          \
	NVS_HOOK(symbol, __VA_ARGS__)                           \
	{                                                       \
		CUresult result;                                \
                                                                \
		if (!NVS_REAL(symbol))                          \
			return CUDA_ERROR_NOT_FOUND;            \
		nvs_device_use(dev);                            \
		result = NVS_REAL(symbol) arguments;            \
		if (result == CUDA_SUCCESS)                     \
			nvs_context_created(*pctx, dev, false); \
		return result;                                  \
	}

CREATE(cuCtxCreate, (pctx, flags, dev), CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
CREATE(cuCtxCreate_v2, (pctx, flags, dev), CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
CREATE(cuCtxCreate_v3, (pctx, paramsArray, numParams, flags, dev), CUcontext *pctx,
       CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice_v1 dev)
CREATE(cuCtxCreate_v4, (pctx, ctxCreateParams, flags, dev), CUcontext *pctx,
       CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)

NVS_HOOK(cuDevicePrimaryCtxRetain, CUcontext *pctx, CUdevice_v1 dev)
{
	CUresult result;

	if (!NVS_REAL(cuDevicePrimaryCtxRetain))
		return CUDA_ERROR_NOT_FOUND;
	nvs_device_use(dev);
	result = NVS_REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
	if (result == CUDA_SUCCESS && nvs_context_primary(dev) != *pctx)
		nvs_context_created(*pctx, dev, true);
	return result;
}

/*
 * A green context lives in its device's primary one, whose synchronization includes it, and which
 * it keeps alive.
 */
NVS_HOOK(cuGreenCtxCreate, CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
	 unsigned int flags)
{
	CUcontext primary;
	CUresult result;

	if (!NVS_REAL(cuGreenCtxCreate))
		return CUDA_ERROR_NOT_FOUND;
	nvs_device_use(dev);
	result = NVS_REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags);
	if (result == CUDA_SUCCESS &&
	    NVS_CALL(cuDevicePrimaryCtxRetain, &primary, dev) == CUDA_SUCCESS) {
		nvs_context_created(primary, dev, true);
		NVS_CALL(cuDevicePrimaryCtxRelease_v2, dev);
	}
	return result;
}

/*
 * It passes a closed gate, because a program must be able to end. But the driver waits here for the
 * context's work, which may still be running; a drain can't synchronize that context any more, and
 * waits for this call instead. What the driver takes away with the context is taken away here too:
 * a capture that stayed in the list would make every later drain wait for ever.
 */
static CUresult destroy(CUresult (*real)(CUcontext), CUcontext context)
{
	int ordinal = nvs_context_ordinal(context);
	struct nvs_pass pass;
	CUresult result;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	nvs_gate_hold(&pass, nvs_device_known(ordinal));
	nvs_context_ending(context);
	result = real(context);
	if (result != CUDA_SUCCESS && ordinal >= 0) {
		nvs_context_created(context, ordinal, false);
	} else if (result == CUDA_SUCCESS) {
		nvs_capture_context_ended(context);
		nvs_memory_context_gone(context);
	}
	nvs_gate_leave(&pass, result);
	return result;
}

NVS_HOOK(cuCtxDestroy, CUcontext ctx)
{
	return destroy(NVS_REAL(cuCtxDestroy), ctx);
}

NVS_HOOK(cuCtxDestroy_v2, CUcontext ctx)
{
	return destroy(NVS_REAL(cuCtxDestroy_v2), ctx);
}

NVS_HOOK(cuCtxDetach, CUcontext ctx)
{
	return destroy(NVS_REAL(cuCtxDetach), ctx);
}

/*
 * Like destroy; but other users may keep the context alive, and only the driver knows of them. The
 * pins keep a drain waiting as well; the mark is for a primary context that no hook saw begin.
 */
static CUresult end_primary(CUresult (*real)(CUdevice_v1), CUdevice_v1 ordinal)
{
	CUcontext context;
	struct nvs_pass pass;
	unsigned int flags;
	CUresult result;
	bool ended;
	int active;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	context = nvs_context_primary(ordinal);
	nvs_gate_hold(&pass, nvs_device_known(ordinal));
	nvs_context_primary_ending(ordinal);
	result = real(ordinal);
	ended = NVS_CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active) == CUDA_SUCCESS &&
		!active;
	nvs_context_primary_ended(ordinal, ended);
	if (context && ended) {
		nvs_capture_context_ended(context);
		nvs_memory_context_gone(context);
	}
	nvs_gate_leave(&pass, result);
	return result;
}

NVS_HOOK(cuDevicePrimaryCtxRelease, CUdevice_v1 dev)
{
	return end_primary(NVS_REAL(cuDevicePrimaryCtxRelease), dev);
}

NVS_HOOK(cuDevicePrimaryCtxRelease_v2, CUdevice_v1 dev)
{
	return end_primary(NVS_REAL(cuDevicePrimaryCtxRelease_v2), dev);
}

NVS_HOOK(cuDevicePrimaryCtxReset, CUdevice_v1 dev)
{
	return end_primary(NVS_REAL(cuDevicePrimaryCtxReset), dev);
}

NVS_HOOK(cuDevicePrimaryCtxReset_v2, CUdevice_v1 dev)
{
	return end_primary(NVS_REAL(cuDevicePrimaryCtxReset_v2), dev);
}
