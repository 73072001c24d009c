/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that does nothing but count who came in, for tests of the hooks: every entry point of
 * entrypoints.tsv exists (less those that the build leaves out) and succeeds. Two devices; a
 * device's primary context is 0x1000 + ordinal, the n-th other context 0x1000 + 0x10 * n + ordinal,
 * a stream 0x100 * (context - 0xfff) + anything; memory of a device lies at 0x70000000000 + 0x10000
 * * ordinal and above.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"

#define EXPORT __attribute__((visibility("default")))
#include "spy_sleep.h"
#define SLOW_EVENTS 64

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
static _Atomic bool held[COUNT];
static _Atomic int failing = -1;
static _Atomic bool busy;
/* Of a slow device that one thread submits to: how many launches were before each event in order.
 */
static struct {
	bool on;
	int events[SLOW_EVENTS];
	int recorded, completed;
	int done, most_ahead; /* launches */
} slow;
static _Atomic bool our_turn = true;
static _Atomic int violations, pending;
static _Atomic int inside, overtaken;
static void (*at_init)(void);

static CUresult enter(int at)
{
	bool sleeps = atomic_load(&sleeping);

	atomic_fetch_add(&counts[at], 1);
	linger();
	while (atomic_load(&held[at])) {
		sched_yield();
		pthread_testcancel();
	}
	if (sleeps || atomic_load(&sleeping))
		atomic_fetch_add(&disturbances, 1);
	return atomic_load(&failing) == at ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* The end of the call comes a while after its begin, and is what submits. */
static CUresult submit(int at)
{
	bool turn = atomic_load(&our_turn);

	atomic_fetch_add(&inside, 1);
	enter(at);
	if (atomic_load(&counts[at]) % 64 == 0)
		sched_yield();
	atomic_fetch_add(&pending, 1);
	if (!turn || !atomic_load(&our_turn))
		atomic_fetch_add(&violations, 1);
	atomic_fetch_sub(&inside, 1);
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

/* For the tests */

/* How often a symbol was entered. */
EXPORT int spy_count(const char *symbol)
{
	return atomic_load(&counts[spy_find(symbol)]);
}

/* The stream that is being captured; NULL: none. */
EXPORT void spy_capture(void *stream)
{
	atomic_store(&capturing, stream);
}

/* One more symbol that does not return; NULL: all do. */
EXPORT void spy_hold(const char *symbol)
{
	if (symbol)
		atomic_store(&held[spy_find(symbol)], true);
	for (int i = 0; !symbol && i < COUNT; i++)
		atomic_store(&held[i], false);
}

/* This symbol returns again. */
EXPORT void spy_release(const char *symbol)
{
	atomic_store(&held[spy_find(symbol)], false);
}

/* The symbol that fails; NULL: none does. */
EXPORT void spy_fail(const char *symbol)
{
	atomic_store(&failing, symbol ? spy_find(symbol) : -1);
}

/* Whether the device completes nothing, so that no event does. */
EXPORT void spy_busy(bool is_busy)
{
	atomic_store(&busy, is_busy);
}

/* From now on an event completes only when the thread waits for it. */
EXPORT void spy_slow(void)
{
	slow.done = atomic_load(&counts[AT_cuLaunchKernel]);
	slow.on = true;
}

/* How many launches had not completed at most since it was asked last. */
EXPORT int spy_most_ahead(void)
{
	int most = slow.most_ahead;

	slow.most_ahead = 0;
	return most;
}

/* Whether anything may be submitted now. */
EXPORT void spy_turn(bool ours)
{
	atomic_store(&our_turn, ours);
}

/* How often something was submitted when it might not. */
EXPORT int spy_violations(void)
{
	return atomic_load(&violations);
}

/* How much was submitted since the last synchronization. */
EXPORT int spy_pending(void)
{
	return atomic_load(&pending);
}

/* How often a context was synchronized while a submission was in the driver. */
EXPORT int spy_overtaken(void)
{
	return atomic_load(&overtaken);
}

/* What the driver's cuInit calls before anything else; NULL: nothing. */
EXPORT void spy_at_init(void (*call)(void))
{
	at_init = call;
}

/* Whether this process has asked the kernel for barriers in all of its threads. */
EXPORT int spy_has_barriers(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

struct spy_caller {
	_Atomic int thread; /* its number while it is in a call, otherwise 0 */
	_Atomic int calls;
};

typedef CUresult (*spy_function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t,
				 size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t,
				 size_t, size_t, size_t, size_t);

/* Calls any function with twenty words, of which it takes as many as it has parameters. */
EXPORT CUresult spy_call(spy_function function, const size_t *words, struct spy_caller *caller)
{
	CUresult result;

	atomic_fetch_add(&caller->calls, 1);
	atomic_store(&caller->thread, (int)syscall(SYS_gettid));
	result = function(words[0], words[1], words[2], words[3], words[4], words[5], words[6],
			  words[7], words[8], words[9], words[10], words[11], words[12], words[13],
			  words[14], words[15], words[16], words[17], words[18], words[19]);
	atomic_store(&caller->thread, 0);
	return result;
}

/* The functions that do more than count */

#include "spy_contexts.h"

CUresult cuInit(unsigned int Flags)
{
	(void)Flags;
	if (at_init)
		at_init();
	return enter(AT_cuInit);
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

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	int launches = atomic_load(&counts[AT_cuLaunchKernel]);

	(void)hEvent;
	(void)hStream;
	if (slow.on) {
		slow.events[slow.recorded++ % SLOW_EVENTS] = launches;
		if (launches - slow.done > slow.most_ahead)
			slow.most_ahead = launches - slow.done;
	}
	return enter(AT_cuEventRecord);
}

/* Whether the thread has launched nothing since its newest event: then it waits for the oldest. */
static bool slow_completes(void)
{
	int newest = slow.events[(slow.recorded + SLOW_EVENTS - 1) % SLOW_EVENTS];

	if (atomic_load(&counts[AT_cuLaunchKernel]) != newest)
		return false;
	slow.done = slow.events[slow.completed++ % SLOW_EVENTS];
	return true;
}

CUresult cuEventQuery(CUevent hEvent)
{
	CUresult result = enter(AT_cuEventQuery);

	(void)hEvent;
	return atomic_load(&busy) || (slow.on && !slow_completes()) ? CUDA_ERROR_NOT_READY : result;
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				void **data, CUdeviceptr_v2 ptr)
{
	bool of_device = ptr >> 40 == 7;

	for (unsigned int i = 0; i < numAttributes; i++)
		if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
			*(unsigned int *)data[i] = of_device ? CU_MEMORYTYPE_DEVICE : 0;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = of_device ? (int)(ptr >> 16 & 0xf) : -2;
	return enter(AT_cuPointerGetAttributes);
}

static void *look_up(const char *symbol, int version, cuuint64_t flags)
{
	int best = -1;

	if (!strcmp(symbol, "cuUnheardOf"))
		return (void *)cuUnheardOf;
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
