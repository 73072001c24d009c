/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contexts of spy_driver.c, of which this is a part: who retained the primary ones, what is
 * current in a thread, which were synchronized.
 */
static _Atomic int created, retained[2];
static _Atomic int synchronized[0x400];
static _Atomic bool dead[0x400];
static __thread CUcontext current, below;

static int ordinal_of(CUcontext context)
{
	return (int)((uintptr_t)context & 0xf);
}

/* For the tests */

/* How often a context was synchronized. */
EXPORT int spy_synchronized(CUcontext context)
{
	return atomic_load(&synchronized[(uintptr_t)context & 0x3ff]);
}

/* Retains a primary context around the hooks. */
EXPORT void spy_retain(int ordinal)
{
	atomic_fetch_add(&retained[ordinal], 1);
}

/* Ends a context around the hooks. */
EXPORT void spy_end(CUcontext context)
{
	atomic_store(&dead[(uintptr_t)context & 0x3ff], true);
}

/* Makes a context current around the hooks. */
EXPORT void spy_make_current(CUcontext context)
{
	current = context;
}

/* The driver's functions */

CUresult cuCtxSynchronize(void)
{
	if (atomic_load(&inside))
		atomic_fetch_add(&overtaken, 1);
	atomic_store(&pending, 0);
	atomic_fetch_add(&synchronized[(uintptr_t)current & 0x3ff], 1);
	return enter(AT_cuCtxSynchronize);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice_v1 dev)
{
	*pctx = (CUcontext)(uintptr_t)(0x1000 + dev);
	atomic_fetch_add(&retained[dev], 1);
	return enter(AT_cuDevicePrimaryCtxRetain);
}

static CUresult release(int at, CUdevice_v1 dev, bool all)
{
	CUresult result = enter(at);

	if (all)
		atomic_store(&retained[dev], 0);
	else
		atomic_fetch_sub(&retained[dev], 1);
	return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice_v1 dev)
{
	return release(AT_cuDevicePrimaryCtxRelease, dev, false);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice_v1 dev)
{
	return release(AT_cuDevicePrimaryCtxRelease_v2, dev, false);
}

CUresult cuDevicePrimaryCtxReset(CUdevice_v1 dev)
{
	return release(AT_cuDevicePrimaryCtxReset, dev, true);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice_v1 dev)
{
	return release(AT_cuDevicePrimaryCtxReset_v2, dev, true);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice_v1 dev, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = atomic_load(&retained[dev]) > 0;
	return enter(AT_cuDevicePrimaryCtxGetState);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	(void)flags;
	*pctx = (CUcontext)(uintptr_t)(0x1010 + 0x10 * atomic_fetch_add(&created, 1) + dev);
	current = *pctx;
	return enter(AT_cuCtxCreate_v2);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	if (((uintptr_t)ctx & ~0xfUL) == 0x1000 && atomic_load(&retained[ordinal_of(ctx)]) <= 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	current = ctx;
	return enter(AT_cuCtxSetCurrent);
}

/* A stack of two is enough. */
CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult result = enter(AT_cuCtxPushCurrent_v2);

	if (result == CUDA_SUCCESS) {
		below = current;
		current = ctx;
	}
	return result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	*pctx = current;
	current = below;
	return enter(AT_cuCtxPopCurrent_v2);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	(void)flags;
	*pctx = current;
	return enter(AT_cuCtxAttach);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	*version = 3020;
	enter(AT_cuCtxGetApiVersion);
	return atomic_load(&dead[(uintptr_t)ctx & 0x3ff]) ? CUDA_ERROR_INVALID_CONTEXT
							  : CUDA_SUCCESS;
}

/* The context that stands for a green one has its number. */
CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	*pContext = (CUcontext)hCtx;
	return enter(AT_cuCtxFromGreenCtx);
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	*pctx = current;
	return enter(AT_cuCtxGetCurrent);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	enter(AT_cuCtxGetDevice);
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = ordinal_of(current);
	return CUDA_SUCCESS;
}
