/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that does nothing but count who came in, for tests of the hooks: every entry point of
 * entrypoints.tsv exists (less those that the build leaves out) and succeeds. Two devices; a
 * context is 0x1000 + ordinal, a stream 0x100 * (1 + ordinal) + anything.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "abi.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * spy_entries.inc: ENTRY(symbol, base, since, variant, gated, (parameters)), and HAND for those
 * with a body below
 */
enum {
#define ENTRY(symbol, base, since, variant, gated, parameters) AT_##symbol,
#define HAND(symbol, base, since, variant, gated, parameters) AT_##symbol,
#include "spy_entries.inc"
#undef ENTRY
#undef HAND
	COUNT
};

static _Atomic int counts[COUNT];
static _Atomic(void *) capturing;
static _Atomic int held = -1;
static _Atomic bool our_turn = true;
static _Atomic int violations, pending;
static __thread CUcontext current;

static CUresult enter(int at)
{
	atomic_fetch_add(&counts[at], 1);
	while (atomic_load(&held) == at)
		sched_yield();
	return CUDA_SUCCESS;
}

/* The end of the call comes a while after its begin, and is what submits. */
static CUresult submit(int at)
{
	bool turn = atomic_load(&our_turn);

	enter(at);
	if (atomic_load(&counts[at]) % 64 == 0)
		sched_yield();
	atomic_fetch_add(&pending, 1);
	if (!turn || !atomic_load(&our_turn))
		atomic_fetch_add(&violations, 1);
	return CUDA_SUCCESS;
}

#define ENTRY(symbol, base, since, variant, gated, parameters)           \
	EXPORT CUresult symbol parameters                                \
	{                                                                \
		return gated ? submit(AT_##symbol) : enter(AT_##symbol); \
	}
#define HAND(symbol, base, since, variant, gated, parameters) EXPORT CUresult symbol parameters;
#include "spy_entries.inc"
#undef ENTRY
#undef HAND

static const struct {
	const char *symbol, *base;
	int since;
	bool per_thread;
	void *function;
} entries[] = {
#define ENTRY(symbol, base, since, variant, gated, parameters) \
	{ #symbol, base, since, variant, (void *)symbol },
#define HAND(symbol, base, since, variant, gated, parameters) \
	{ #symbol, base, since, variant, (void *)symbol },
#include "spy_entries.inc"
};

static int spy_find(const char *symbol)
{
	for (int i = 0; i < COUNT; i++)
		if (!strcmp(entries[i].symbol, symbol))
			return i;
	return -1;
}

/*
 * For the tests: how often a symbol was entered, which stream is being captured, which symbol does
 * not return; whether anything may be submitted now, how often something was when it might not, and
 * how much was since the last synchronization.
 */

EXPORT int spy_count(const char *symbol)
{
	return atomic_load(&counts[spy_find(symbol)]);
}

EXPORT void spy_capture(void *stream)
{
	atomic_store(&capturing, stream);
}

EXPORT void spy_hold(const char *symbol)
{
	atomic_store(&held, symbol ? spy_find(symbol) : -1);
}

EXPORT void spy_turn(bool ours)
{
	atomic_store(&our_turn, ours);
}

EXPORT int spy_violations(void)
{
	return atomic_load(&violations);
}

EXPORT int spy_pending(void)
{
	return atomic_load(&pending);
}

CUresult cuCtxSynchronize(void)
{
	atomic_store(&pending, 0);
	return enter(AT_cuCtxSynchronize);
}

CUresult cuDeviceGetCount(int *count)
{
	*count = 2;
	return enter(AT_cuDeviceGetCount);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice_v1 dev)
{
	memset(uuid, 'a' + dev, sizeof(*uuid));
	return enter(AT_cuDeviceGetUuid_v2);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice_v1 dev)
{
	*bytes = 16ULL << 30;
	(void)dev;
	return enter(AT_cuDeviceTotalMem_v2);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice_v1 dev)
{
	*pctx = (CUcontext)(uintptr_t)(0x1000 + dev);
	return enter(AT_cuDevicePrimaryCtxRetain);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice_v1 dev, unsigned int *flags, int *active)
{
	(void)dev;
	*flags = 0;
	*active = 1;
	return enter(AT_cuDevicePrimaryCtxGetState);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	current = ctx;
	return enter(AT_cuCtxSetCurrent);
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
	*device = (int)((uintptr_t)current - 0x1000);
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	*pctx = (CUcontext)(0x1000 + ((uintptr_t)hStream >> 8) - 1);
	return enter(AT_cuStreamGetCtx);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	*captureStatus = hStream && atomic_load(&capturing) == hStream
				 ? CU_STREAM_CAPTURE_STATUS_ACTIVE
				 : CU_STREAM_CAPTURE_STATUS_NONE;
	return enter(AT_cuStreamIsCapturing);
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	*phEvent = (CUevent)0x2000;
	(void)Flags;
	return enter(AT_cuEventCreate);
}

static void *look_up(const char *symbol, int version, cuuint64_t flags)
{
	int best = -1;

	for (int i = 0; i < COUNT; i++) {
		bool wanted = entries[i].per_thread ==
			      !!(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);

		if (strcmp(entries[i].base, symbol) || entries[i].since > version ||
		    (!wanted && entries[i].per_thread))
			continue;
		if (best < 0 || entries[i].per_thread > entries[best].per_thread ||
		    (entries[i].per_thread == entries[best].per_thread &&
		     entries[i].since > entries[best].since))
			best = i;
	}
	return best < 0 ? NULL : entries[best].function;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	*pfn = look_up(symbol, driverVersion, flags);
	enter(AT_cuGetProcAddress);
	return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *symbolFound)
{
	*pfn = look_up(symbol, driverVersion, flags);
	enter(AT_cuGetProcAddress_v2);
	if (symbolFound)
		*symbolFound =
			*pfn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
