/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting as cuMemFree does. No state, no lock.
 */
#include "memory/swap/idle.h"

#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/contexts.h"
#include "process/thread.h"

/*
 * The question about an event is forbidden where allocating is, and ends the same captures. Events
 * may be made and destroyed anywhere.
 */
static CUresult ask_event(void)
{
	CUevent event;
	CUresult result = NVS_CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);

	if (result != CUDA_SUCCESS)
		return result;
	result = NVS_CALL(cuEventQuery, event);
	NVS_CALL(cuEventDestroy_v2, event);
	return result;
}

CUresult nvs_idle_check(CUcontext context)
{
	unsigned int version;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* One that was destroyed may still be current. */
	if (nvs_context_ordinal(context) < 0 &&
	    NVS_CALL(cuCtxGetApiVersion, context, &version) != CUDA_SUCCESS)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return nvs_captures_going_on() ? ask_event() : CUDA_SUCCESS;
}

/*
 * A synchronization would end every capture of the context; a free of the driver's own does not,
 * and waits as well. Where the device is full, it is memory of the host that is freed.
 */
static CUresult free_beside_captures(void)
{
	CUdeviceptr pointer;
	CUresult result = NVS_CALL(cuMemAlloc_v2, &pointer, 1);
	void *host;

	if (result == CUDA_SUCCESS)
		return NVS_CALL(cuMemFree_v2, pointer);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		result = NVS_CALL(cuMemHostAlloc, &host, 1, 0);
		if (result == CUDA_SUCCESS)
			result = NVS_CALL(cuMemFreeHost, host);
	}
	return result;
}

static CUresult wait_for_current(void)
{
	CUresult result;

	/* From here on no capture begins, and no thread is cancelled, until it has waited. */
	nvs_cancel_off();
	if (nvs_capture_try_forbid()) {
		result = NVS_CALL(cuCtxSynchronize);
		nvs_capture_allow();
	} else {
		result = free_beside_captures();
	}
	nvs_cancel_on();
	return result;
}

CUresult nvs_idle_wait(CUcontext context)
{
	CUcontext current = NULL;
	CUresult result = NVS_CALL(cuCtxGetCurrent, &current);

	if (result != CUDA_SUCCESS)
		return result;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (current == context)
		return wait_for_current();
	result = NVS_CALL(cuCtxPushCurrent_v2, context);
	if (result == CUDA_SUCCESS) {
		result = wait_for_current();
		NVS_CALL(cuCtxPopCurrent_v2, &current);
	}
	return result;
}
