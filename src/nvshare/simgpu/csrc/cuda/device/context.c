/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the contexts. Protected by sim.lock; one that was destroyed may still be current. */
#include <stdlib.h>

#include "checkpoint/gate.h"
#include "kernel/module.h"
#include "memory/range.h"
#include "stream/stream.h"

static void set_defaults(struct CUctx_st *context)
{
	static const size_t limits[SIM_LIMITS] = { 1024, SIM_MIB(1), SIM_MIB(8), 2, 2048, 128,
						   0,	 0,	     0,		 0, 0 };

	for (int i = 0; i < SIM_LIMITS; i++)
		context->limits[i] = limits[i];
}

static CUresult create_locked(int device, unsigned int flags, struct CUctx_st **out)
{
	struct CUctx_st *context;
	int died = atomic_load(&sim.died[device]);

	if (died != CUDA_SUCCESS)
		return died;
	if (!sim_state_join(&sim.state) ||
	    !sim_state_charge(&sim.state, device,
			      sim_state_device(&sim.state, device)->context_bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_state_count_context(&sim.state, device, 1);
	context = calloc(1, sizeof(*context));
	context->device = device;
	context->flags = flags | CU_CTX_MAP_HOST;
	context->api_version = 3020;
	context->id = ++sim.last_id;
	set_defaults(context);
	context->legacy = sim_stream_new_locked(context, CU_STREAM_DEFAULT, 0);
	sim_register_locked(context, SIM_CONTEXT);
	*out = context;
	return CUDA_SUCCESS;
}

static void destroy_locked(struct CUctx_st *context)
{
	const struct sim_shared_device *device = sim_state_device(&sim.state, context->device);

	sim_context_idle_locked(context);
	sim_forget_locked(context);
	sim_module_free_context_locked(context);
	while (context->streams)
		sim_stream_close_locked(context->streams);
	sim_range_drop_context_locked(context);
	sim_state_uncharge(&sim.state, context->device,
			   device->context_bytes + (context->launched ? device->launch_bytes : 0));
	sim_state_count_context(&sim.state, context->device, -1);
	/*
	 * The object stays: threads may still have it on their stacks, and its streams' threads
	 * look at its error. It is in a list, so that it is known to be kept.
	 */
	context->ended_before = sim.ended;
	sim.ended = context;
}

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	CUresult result;

	if (!pctx || flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	result = create_locked(dev, flags, pctx);
	sim_unlock();
	return result == CUDA_SUCCESS ? sim_push(*pctx) : result;
}

CUresult sim_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			    unsigned int flags, CUdevice_v1 dev)
{
	if (paramsArray || numParams != 0)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
			    CUdevice dev)
{
	if (ctxCreateParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx)
{
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (!sim_is_locked(ctx, SIM_CONTEXT))
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (ctx->is_primary)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else
		destroy_locked(ctx);
	sim_unlock();
	if (result == CUDA_SUCCESS)
		sim_leave(ctx);
	return result;
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice_v1 dev)
{
	CUresult result = CUDA_SUCCESS;
	bool is_new;

	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	is_new = !sim.primary[dev];
	sim_unlock();
	if (is_new) /* one that is there is given even to a process that is locked */
		sim_gate_enter();
	sim_lock();
	if (!sim.primary[dev]) {
		result = create_locked(dev, sim.primary_flags[dev], &sim.primary[dev]);
		if (result == CUDA_SUCCESS)
			sim.primary[dev]->is_primary = true;
	}
	if (result == CUDA_SUCCESS) {
		sim.primary[dev]->retained++;
		*pctx = sim.primary[dev];
	}
	sim_unlock();
	if (is_new)
		sim_gate_leave();
	return result;
}

static void end_primary_locked(CUdevice device)
{
	struct CUctx_st *context = sim.primary[device];

	sim.primary[device] = NULL;
	destroy_locked(context);
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice_v1 dev)
{
	CUresult result = CUDA_SUCCESS;

	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (!sim.primary[dev])
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (--sim.primary[dev]->retained == 0)
		end_primary_locked(dev);
	sim_unlock();
	return result;
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice_v1 dev)
{
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (sim.primary[dev])
		end_primary_locked(dev);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice_v1 dev, unsigned int flags)
{
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	sim.primary_flags[dev] = flags;
	if (sim.primary[dev])
		sim.primary[dev]->flags = flags | CU_CTX_MAP_HOST;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice_v1 dev, unsigned int *flags, int *active)
{
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*active = sim.primary[dev] != NULL;
	*flags = sim.primary[dev] ? sim.primary[dev]->flags & ~(unsigned int)CU_CTX_MAP_HOST
				  : sim.primary_flags[dev];
	sim_unlock();
	return CUDA_SUCCESS;
}
