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

#define NO_DEVICE (-1)
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

/* `primary`: of which device the primary context may begin. */
#define BEGIN(symbol, primary, noted, arguments, ...)                       \
	NVS_HOOK(symbol, __VA_ARGS__)                                       \
	{                                                                   \
		struct nvs_device *device;                                  \
		struct nvs_context *entry;                                  \
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
		do {                                                        \
			entry = nvs_context_primary_beginning(primary);     \
			result = NVS_REAL(symbol) arguments;                \
			if (result == CUDA_SUCCESS)                         \
				noted(*pctx, dev);                          \
			nvs_context_primary_begun(entry);                   \
		} while (try_again(device, result, &given));                \
		return answered(device, result);                            \
	}
#define CREATE(symbol, arguments, ...) \
	BEGIN(symbol, NO_DEVICE, nvs_context_created, arguments, __VA_ARGS__)

BEGIN(cuDevicePrimaryCtxRetain, dev, nvs_context_primary_seen, (pctx, dev), CUcontext *pctx,
      CUdevice_v1 dev)
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

/* Whoever made the context, a thread that submits in it has made it current. */
#define MAKE_CURRENT(symbol)                             \
	NVS_HOOK(symbol, CUcontext ctx)                  \
	{                                                \
		CUresult result = NVS_CALL(symbol, ctx); \
                                                         \
		if (result == CUDA_SUCCESS)              \
			nvs_context_note(ctx);           \
		return result;                           \
	}

MAKE_CURRENT(cuCtxSetCurrent)
MAKE_CURRENT(cuCtxPushCurrent)
MAKE_CURRENT(cuCtxPushCurrent_v2)

NVS_HOOK(cuCtxAttach, CUcontext *pctx, unsigned int flags)
{
	CUresult result = NVS_CALL(cuCtxAttach, pctx, flags);

	if (result == CUDA_SUCCESS)
		nvs_context_attached(*pctx);
	return result;
}

/*
 * A green context lives in its device's primary one, whose synchronization includes it, and which
 * it keeps alive; that may begin with it.
 */
static void note_green(CUgreenCtx context, int ordinal)
{
	(void)context, (void)ordinal;
}

BEGIN(cuGreenCtxCreate, dev, note_green, (pctx, desc, dev, flags), CUgreenCtx *pctx,
      CUdevResourceDesc desc, CUdevice dev, unsigned int flags)

/* A call that may end a context, and what is held meanwhile. */
struct ending {
	struct nvs_pass pass;
	CUcontext context;
	struct nvs_context *entry;
	struct nvs_owner *memory;
};

/*
 * The call passes a closed gate, because a program must be able to end. But the driver waits in it
 * for the context's work, which may still be running; a drain can't synchronize that context any
 * more, and waits for this call instead. `primary`: it is that of the device; the pins keep a drain
 * waiting as well, and the mark is for one that no hook saw begin.
 */
static void begin_end(struct ending *ending, int ordinal, bool primary, CUcontext context)
{
	nvs_gate_hold(&ending->pass, nvs_device_known(ordinal));
	ending->entry = primary ? nvs_context_primary_ending(ordinal) : nvs_context_ending(context);
	ending->context = primary ? nvs_context_primary(ordinal) : context;
	ending->memory = nvs_allocations_context_ending(ending->context);
}

/*
 * What the driver takes away with the context is taken away here too: a capture that stayed in the
 * list would make every later drain wait for ever.
 */
static CUresult end(struct ending *ending, CUresult result, bool gone)
{
	if (gone && ending->context) {
		nvs_capture_context_ended(ending->context);
		nvs_memory_context_gone(ending->context);
	}
	nvs_context_ended(ending->entry, gone);
	nvs_allocations_context_ended(ending->memory, gone);
	if (gone) {
		nvs_exports_check();
		nvs_gates_look_again();
	}
	nvs_gate_leave(&ending->pass, result);
	return result;
}

/* `detaches`: one that was attached as well has other users; only we know, for nobody can ask. */
static CUresult destroy(CUresult (*real)(CUcontext), CUcontext context, bool detaches)
{
	struct ending ending;
	CUresult result;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	begin_end(&ending, nvs_context_ordinal(context), false, context);
	result = real(context);
	return end(&ending, result,
		   result == CUDA_SUCCESS && (!detaches || nvs_context_detached(ending.entry)));
}

NVS_HOOK(cuCtxDestroy, CUcontext ctx)
{
	return destroy(NVS_REAL(cuCtxDestroy), ctx, false);
}

NVS_HOOK(cuCtxDestroy_v2, CUcontext ctx)
{
	return destroy(NVS_REAL(cuCtxDestroy_v2), ctx, false);
}

NVS_HOOK(cuCtxDetach, CUcontext ctx)
{
	return destroy(NVS_REAL(cuCtxDetach), ctx, true);
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

/* Other users may keep the context alive, and only the driver knows of them. */
static CUresult end_primary(CUresult (*real)(CUdevice_v1), CUdevice_v1 ordinal)
{
	struct ending ending;
	unsigned int flags;
	CUresult result;
	int active;

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	begin_end(&ending, ordinal, true, NULL);
	result = real(ordinal);
	return end(&ending, result,
		   NVS_CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active) == CUDA_SUCCESS &&
			   !active);
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
