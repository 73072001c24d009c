/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked and set about a context, and waiting for it. Contexts are protected by
 * sim.lock.
 */
#include "capture/capture.h"
#include "checkpoint/gate.h"
#include "memory/range.h"
#include "stream/stream.h"

CUresult sim_cuCtxGetDevice(CUdevice_v1 *device)
{
	const struct CUctx_st *context;

	sim_lock();
	context = sim_current_locked(); /* an error of the context does not matter here */
	sim_unlock();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device;
	return CUDA_SUCCESS;
}

/* The context behind a handle, where NULL means the current one. */
static CUresult context_of(CUcontext handle, struct CUctx_st **context)
{
	bool valid;

	if (!handle)
		return sim_current(context);
	sim_lock();
	valid = sim_is_locked(handle, SIM_CONTEXT);
	sim_unlock();
	if (!valid)
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = handle;
	return atomic_load(&handle->error);
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct CUctx_st *context;
	CUresult result = context_of(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct CUctx_st *context;
	CUresult result = context_of(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	*ctxId = context->id;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct CUctx_st *context;
	CUresult result = context_of(ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = context->api_version;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetFlags(unsigned int *flags)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned int flags)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	context->flags = flags | CU_CTX_MAP_HOST;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit < 0 || limit >= SIM_LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	sim_lock();
	*pvalue = context->limits[limit];
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (limit < 0 || limit >= SIM_LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	sim_lock();
	context->limits[limit] = value;
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult get_config(int *out, bool cache)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*out = cache ? context->cache_config : context->shared_config;
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult set_config(int value, int largest, bool cache)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (value < 0 || value > largest)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*(cache ? &context->cache_config : &context->shared_config) = value;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	return get_config(pconfig, true);
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
	return set_config(config, 3, true);
}

CUresult sim_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	return get_config(pConfig, false);
}

CUresult sim_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	return set_config(config, 2, false);
}

CUresult sim_cuCtxResetPersistingL2Cache(void)
{
	struct CUctx_st *context;

	return sim_current(&context);
}

CUresult sim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = SIM_GREATEST_PRIORITY;
	return CUDA_SUCCESS;
}

static CUresult synchronize(struct CUctx_st *context)
{
	CUresult result;

	if (sim_gate_now() == SIM_GATE_RESTORED) {
		sim_gate_enter();
		sim_gate_leave();
	}
	sim_look_at_progress();
	sim_lock();
	result = sim_capture_check_context_sync_locked(context);
	if (result == CUDA_SUCCESS)
		sim_context_idle_locked(context);
	sim_unlock();
	return result == CUDA_SUCCESS ? atomic_load(&context->error) : result;
}

CUresult sim_cuCtxSynchronize(void)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	return result == CUDA_SUCCESS ? synchronize(context) : result;
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx)
{
	struct CUctx_st *context;
	CUresult result = context_of(ctx, &context);

	return result == CUDA_SUCCESS ? synchronize(context) : result;
}
