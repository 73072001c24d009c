/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns each thread's stack of current contexts. It belongs to its thread; a destroyed context may
 * still be in it, so every use looks it up.
 */
#include "sim.h"

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

CUresult sim_push(struct CUctx_st *context)
{
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

void sim_leave(const struct CUctx_st *context)
{
	if (depth > 0 && stack[depth - 1] == context)
		depth--;
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

	return result == CUDA_SUCCESS ? sim_push(ctx) : result;
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
	return ctx ? sim_push(ctx) : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx)
{
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = depth > 0 ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}
