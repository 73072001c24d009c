/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the contexts, and each thread's stack of current ones. Contexts are protected by sim.lock; a
 * stack belongs to its thread, and a destroyed context may still be in it: every use looks it up.
 */
#include <stdlib.h>

#include "kernel/module.h"
#include "memory/range.h"
#include "stream/stream.h"

#define STACK_DEPTH 64

static __thread struct CUctx_st *stack[STACK_DEPTH];
static __thread unsigned int depth;
static __thread uint64_t thread_id;

uint64_t sim_thread_id(void)
{
	static _Atomic uint64_t last;

	if (thread_id == 0)
		thread_id = atomic_fetch_add(&last, 1) + 1;
	return thread_id;
}

struct CUctx_st *sim_current_locked(void)
{
	struct CUctx_st *context = depth > 0 ? stack[depth - 1] : NULL;

	return sim_is_locked(context, SIM_CONTEXT) ? context : NULL;
}

CUresult sim_current(struct CUctx_st **context)
{
	struct CUctx_st *top = depth > 0 ? stack[depth - 1] : NULL;

	if (!top)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_lock();
	*context = sim_current_locked();
	sim_unlock();
	return *context ? atomic_load(&(*context)->error) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void sim_context_fail(struct CUctx_st *context, int error)
{
	atomic_store(&context->error, error);
	atomic_store(&sim.died[context->device], error);
}

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

static CUresult push(struct CUctx_st *context)
{
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = context;
	return CUDA_SUCCESS;
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
	return result == CUDA_SUCCESS ? push(*pctx) : result;
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
	if (result == CUDA_SUCCESS && depth > 0 && stack[depth - 1] == ctx)
		depth--;
	return result;
}

static CUresult check_context(CUcontext context)
{
	bool valid;

	sim_lock();
	valid = sim_is_locked(context, SIM_CONTEXT);
	sim_unlock();
	return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult result = check_context(ctx);

	return result == CUDA_SUCCESS ? push(ctx) : result;
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (pctx)
		*pctx = stack[depth];
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCurrent(CUcontext ctx)
{
	CUresult result = ctx ? check_context(ctx) : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		return result;
	if (depth > 0)
		depth--;
	return ctx ? push(ctx) : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx)
{
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = depth > 0 ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice_v1 dev)
{
	CUresult result = CUDA_SUCCESS;

	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
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
