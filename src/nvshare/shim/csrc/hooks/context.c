/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: a device counts as used before its first context exists, and a drain knows all of them.
 * No state of its own.
 */
#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/gate.h"
#include "gate/lost.h"
#include "gate/pass.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/allocations.h"
#include "memory/swap/exports.h"
#include "process/terms.h"

#define CONTEXT_BYTES (640ull << 20) /* about what the driver takes for one */

/*
 * A context takes memory inside the driver, where nobody can be asked for it: so it is asked for
 * before.
 */
static bool may_begin(struct nvs_device *device)
{
	if (!device || nvs_memory_swaps(device))
		return !device || nvs_room_for_context(device);
	/* So that the program sees its limit from the first question on. A context has none. */
	nvs_room_ask_fixed(device, 0, UINT64_MAX);
	return true;
}

/* The driver had no memory for it after all, and there may be some now. */
static bool try_again(struct nvs_device *device, CUresult result, struct nvs_room_given *given)
{
	return result == CUDA_ERROR_OUT_OF_MEMORY && device &&
	       nvs_room_lacking(device, given, CONTEXT_BYTES);
}

/* After a fault in one that has ended since, unseen, the driver makes no other. */
static CUresult answered(struct nvs_device *device, CUresult result)
{
	if (device && nvs_final_name(result))
		nvs_lose(device, result);
	return result;
}

#define CREATE(symbol, arguments, ...)                                      \
	NVS_HOOK(symbol, __VA_ARGS__)                                       \
	{                                                                   \
		struct nvs_device *device;                                  \
		struct nvs_room_given given = { .kind = NVS_ROOM_CONTEXT }; \
		CUresult result;                                            \
                                                                            \
		if (!NVS_REAL(symbol))                                      \
			return CUDA_ERROR_NOT_FOUND;                        \
		if (nvs_terms_invalid())                                    \
			return CUDA_ERROR_NOT_PERMITTED;                    \
		device = nvs_device_use(dev);                               \
		if (!may_begin(device))                                     \
			return CUDA_ERROR_OUT_OF_MEMORY;                    \
		do                                                          \
			result = NVS_REAL(symbol) arguments;                \
		while (try_again(device, result, &given));                  \
		if (result == CUDA_SUCCESS)                                 \
			nvs_context_created(*pctx, dev);                    \
		return answered(device, result);                            \
	}

CREATE(cuCtxCreate, (pctx, flags, dev), CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
CREATE(cuCtxCreate_v2, (pctx, flags, dev), CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
CREATE(cuCtxCreate_v3, (pctx, paramsArray, numParams, flags, dev), CUcontext *pctx,
       CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice_v1 dev)
CREATE(cuCtxCreate_v4, (pctx, ctxCreateParams, flags, dev), CUcontext *pctx,
       CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
CREATE(cuGLCtxCreate, (pctx, flags, dev), CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
CREATE(cuGLCtxCreate_v2, (pctx, flags, dev), CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
CREATE(cuVDPAUCtxCreate, (pctx, flags, dev, vdpDevice, vdpGetProcAddress), CUcontext *pctx,
       unsigned int flags, CUdevice_v1 dev, VdpDevice vdpDevice,
       VdpGetProcAddress *vdpGetProcAddress)
CREATE(cuVDPAUCtxCreate_v2, (pctx, flags, dev, vdpDevice, vdpGetProcAddress), CUcontext *pctx,
       unsigned int flags, CUdevice_v1 dev, VdpDevice vdpDevice,
       VdpGetProcAddress *vdpGetProcAddress)

NVS_HOOK(cuDevicePrimaryCtxRetain, CUcontext *pctx, CUdevice_v1 dev)
{
	struct nvs_room_given given = { .kind = NVS_ROOM_CONTEXT };
	struct nvs_device *device;
	CUresult result;

	if (!NVS_REAL(cuDevicePrimaryCtxRetain))
		return CUDA_ERROR_NOT_FOUND;
	if (nvs_terms_invalid())
		return CUDA_ERROR_NOT_PERMITTED;
	device = nvs_device_use(dev);
	if (!may_begin(device))
		return CUDA_ERROR_OUT_OF_MEMORY;
	do
		result = NVS_REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
	while (try_again(device, result, &given));
	if (result == CUDA_SUCCESS)
		nvs_context_primary_seen(*pctx, dev);
	return answered(device, result);
}

/* Whoever made the context, a thread that submits in it has made it current. */
#define MAKE_CURRENT(symbol)                         \
	NVS_HOOK(symbol, CUcontext ctx)              \
	{                                            \
		CUresult result;                     \
                                                     \
		if (!NVS_REAL(symbol))               \
			return CUDA_ERROR_NOT_FOUND; \
		result = NVS_REAL(symbol)(ctx);      \
		if (result == CUDA_SUCCESS)          \
			nvs_context_note(ctx);       \
		return result;                       \
	}

MAKE_CURRENT(cuCtxSetCurrent)
MAKE_CURRENT(cuCtxPushCurrent)
MAKE_CURRENT(cuCtxPushCurrent_v2)

NVS_HOOK(cuCtxAttach, CUcontext *pctx, unsigned int flags)
{
	CUresult result;

	if (!NVS_REAL(cuCtxAttach))
		return CUDA_ERROR_NOT_FOUND;
	result = NVS_REAL(cuCtxAttach)(pctx, flags);
	if (result == CUDA_SUCCESS)
		nvs_context_attached(*pctx);
	return result;
}

/*
 * A green context lives in its device's primary one, whose synchronization includes it, and which
 * it keeps alive.
 */
NVS_HOOK(cuGreenCtxCreate, CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
	 unsigned int flags)
{
	if (!NVS_REAL(cuGreenCtxCreate))
		return CUDA_ERROR_NOT_FOUND;
	nvs_device_use(dev);
	return NVS_REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags);
}

/*
 * What the driver takes away with the context is taken away here too: a capture that stayed in the
 * list would make every later drain wait for ever.
 */
static void context_ended(struct nvs_context *entry, CUcontext context, struct nvs_owner *memory,
			  bool gone)
{
	nvs_context_ended(entry, gone);
	nvs_allocations_context_ended(memory, gone);
	if (gone && context) {
		nvs_capture_context_ended(context);
		nvs_memory_context_gone(context);
		nvs_exports_check();
	}
	if (gone)
		nvs_gates_look_again();
}

/*
 * It passes a closed gate, because a program must be able to end. But the driver waits here for the
 * context's work, which may still be running; a drain can't synchronize that context any more, and
 * waits for this call instead.
 */
static CUresult destroy(CUresult (*real)(CUcontext), CUcontext context)
{
	struct nvs_context *entry;
	struct nvs_owner *memory;
	struct nvs_pass pass;
	CUresult result;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	nvs_gate_hold(&pass, nvs_device_known(nvs_context_ordinal(context)));
	entry = nvs_context_ending(context);
	memory = nvs_allocations_context_ending(context);
	result = real(context);
	context_ended(entry, context, memory, result == CUDA_SUCCESS);
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

/* A context that was attached as well has other users; only we know, for nobody can ask. */
NVS_HOOK(cuCtxDetach, CUcontext ctx)
{
	struct nvs_context *entry;
	struct nvs_owner *memory;
	struct nvs_pass pass;
	CUresult result;

	if (!NVS_REAL(cuCtxDetach))
		return CUDA_ERROR_NOT_FOUND;
	nvs_gate_hold(&pass, nvs_device_known(nvs_context_ordinal(ctx)));
	entry = nvs_context_ending(ctx);
	memory = nvs_allocations_context_ending(ctx);
	result = NVS_REAL(cuCtxDetach)(ctx);
	context_ended(entry, ctx, memory, result == CUDA_SUCCESS && nvs_context_detached(entry));
	nvs_gate_leave(&pass, result);
	return result;
}

/*
 * The context that stands for a green one ends with it, but not its memory, which is the primary
 * context's.
 */
NVS_HOOK(cuGreenCtxDestroy, CUgreenCtx hCtx)
{
	CUcontext context = NULL;
	struct nvs_context *entry;
	struct nvs_pass pass;
	CUresult result;

	if (!NVS_REAL(cuGreenCtxDestroy))
		return CUDA_ERROR_NOT_FOUND;
	NVS_CALL(cuCtxFromGreenCtx, &context, hCtx);
	nvs_gate_hold(&pass, nvs_device_known(nvs_context_ordinal(context)));
	entry = nvs_context_ending(context);
	result = NVS_REAL(cuGreenCtxDestroy)(hCtx);
	nvs_context_ended(entry, result == CUDA_SUCCESS);
	nvs_gate_leave(&pass, result);
	return result;
}

/*
 * Like destroy; but other users may keep the context alive, and only the driver knows of them. The
 * pins keep a drain waiting as well; the mark is for a primary context that no hook saw begin.
 */
static CUresult end_primary(CUresult (*real)(CUdevice_v1), CUdevice_v1 ordinal)
{
	struct nvs_context *entry;
	struct nvs_owner *memory;
	CUcontext context;
	struct nvs_pass pass;
	unsigned int flags;
	CUresult result;
	int active;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	nvs_gate_hold(&pass, nvs_device_known(ordinal));
	entry = nvs_context_primary_ending(ordinal);
	context = nvs_context_primary(ordinal);
	memory = nvs_allocations_context_ending(context);
	result = real(ordinal);
	context_ended(entry, context, memory,
		      NVS_CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active) ==
				      CUDA_SUCCESS &&
			      !active);
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
