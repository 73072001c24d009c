/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device, managed and host memory: making and freeing it. The ranges are range.c's; protected by
 * sim.lock.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "capture/capture.h"
#include "device/bus.h"
#include "memory/paging.h"
#include "memory/range.h"
#include "stream/stream.h"

#define PITCH_ALIGNMENT 512u

/*
 * What every call that changes memory checks first: there is a context, and no capture that the
 * call would disturb.
 */
static CUresult begin(struct CUctx_st **context)
{
	CUresult result = sim_current(context);

	return result == CUDA_SUCCESS ? sim_capture_check_unsafe() : result;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr_v2 *dptr, size_t bytesize)
{
	uint64_t start = sim_now_ns();
	struct CUctx_st *context;
	struct sim_range *range;
	CUresult result = begin(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_device_memory_locked(context, context->device, bytesize, &range);
	if (result == CUDA_SUCCESS)
		*dptr = range->start;
	sim_unlock();
	if (result == CUDA_SUCCESS)
		sim_call_takes(start, sim_call_ns(SIM_CALL_ALLOC, 1, bytesize));
	return result;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr_v2 *dptr, size_t *pPitch, size_t WidthInBytes,
				size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch = sim_round_up(WidthInBytes, PITCH_ALIGNMENT);
	CUresult result;

	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0 || WidthInBytes > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (Height > UINT64_MAX / pitch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_cuMemAlloc_v2(dptr, pitch * Height);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch;
	return result;
}

/* Ordinary memory of the process, as a range of its own. */
static CUresult add_host_memory_locked(struct CUctx_st *context, enum sim_range_kind kind,
				       size_t bytes, unsigned int flags, struct sim_range **range)
{
	size_t span = sim_round_up(bytes, SIM_PAGE);
	void *memory;

	if (span < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory = mmap(NULL, span, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*range = sim_range_add_locked(kind, (uint64_t)(uintptr_t)memory,
				      sim_round_up(bytes, SIM_ALIGNMENT), span);
	(*range)->requested_bytes = bytes;
	(*range)->device = context->device;
	(*range)->context = context;
	(*range)->flags = flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr_v2 *dptr, size_t bytesize, unsigned int flags)
{
	struct CUctx_st *context;
	struct sim_range *range;
	CUresult result = begin(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || bytesize == 0 ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = add_host_memory_locked(context, SIM_RANGE_MANAGED, bytesize, flags, &range);
	if (result == CUDA_SUCCESS) {
		sim_paging_begin_locked(range);
		range->advice.preferred.id = -2;
		range->advice.prefetched.id = -2;
		*dptr = range->start;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	uint64_t start = sim_now_ns();
	struct CUctx_st *context;
	struct sim_range *range;
	CUresult result = begin(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pp || Flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytesize == 0) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	sim_lock();
	result = add_host_memory_locked(context, SIM_RANGE_HOST, bytesize,
					Flags | CU_MEMHOSTALLOC_DEVICEMAP, &range);
	if (result == CUDA_SUCCESS)
		*pp = (void *)(uintptr_t)range->start;
	sim_unlock();
	if (result == CUDA_SUCCESS)
		sim_call_takes(start, sim_call_ns(SIM_CALL_HOST_ALLOC, 1, bytesize));
	return result;
}

CUresult sim_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return sim_cuMemHostAlloc(pp, bytesize, 0);
}

/* Frees the range that starts at an address, after all work that may use it. */
static CUresult free_range(uint64_t address, bool (*is_right_kind)(enum sim_range_kind kind),
			   CUresult if_unknown, enum sim_call call)
{
	struct CUctx_st *current;
	struct sim_range *range;
	CUresult result = begin(&current);
	uint64_t start = 0;
	uint64_t ns = 0;

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	range = sim_range_live_locked(address);
	if (range && range->start == address && is_right_kind(range->kind)) {
		sim_context_idle_locked(range->context);
		range = sim_range_live_locked(address);
	}
	if (!range) {
		result = if_unknown;
	} else if (range->start == address && is_right_kind(range->kind)) {
		start = sim_now_ns();
		ns = sim_call_ns(call, 1, range->requested_bytes);
		sim_range_drop_locked(range);
	} else {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	sim_call_takes(start, ns);
	return result;
}

static bool is_device_or_managed(enum sim_range_kind kind)
{
	return kind == SIM_RANGE_DEVICE || kind == SIM_RANGE_MANAGED;
}

static bool is_host(enum sim_range_kind kind)
{
	return kind == SIM_RANGE_HOST;
}

static bool is_registered(enum sim_range_kind kind)
{
	return kind == SIM_RANGE_REGISTERED;
}

CUresult sim_cuMemFree_v2(CUdeviceptr_v2 dptr)
{
	struct CUctx_st *context;

	if (dptr == 0)
		return sim_current(&context);
	return free_range(dptr, is_device_or_managed, CUDA_ERROR_INVALID_VALUE, SIM_CALL_FREE);
}

CUresult sim_cuMemFreeHost(void *p)
{
	return free_range((uint64_t)(uintptr_t)p, is_host, CUDA_ERROR_INVALID_VALUE,
			  SIM_CALL_HOST_FREE);
}

CUresult sim_cuMemHostUnregister(void *p)
{
	return free_range((uint64_t)(uintptr_t)p, is_registered,
			  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, SIM_CALL_HOST_UNREGISTER);
}

/* Whether all of it is memory of the process, with the rights that registering it needs. */
static bool is_mapped(uint64_t start, uint64_t end, bool read_only)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long from, to;
	char line[512], rights[8];

	while (maps && start < end && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) != 3 || to <= start)
			continue;
		if (from > start || rights[0] != 'r' || (rights[1] != 'w' && !read_only))
			break;
		start = to;
	}
	if (maps)
		fclose(maps);
	return start >= end;
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	uint64_t start = (uint64_t)(uintptr_t)p;
	uint64_t start_ns = sim_now_ns();
	const struct sim_range *other;
	struct sim_range *range;
	struct CUctx_st *context;
	CUresult result = begin(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!p || bytesize == 0 || Flags & ~15u || start + bytesize < start ||
	    sim_window_contains(start) ||
	    !is_mapped(start, start + bytesize, Flags & CU_MEMHOSTREGISTER_READ_ONLY))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	other = sim_range_next_locked(start);
	if (other && other->start < start + bytesize) {
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	} else {
		range = sim_range_add_locked(SIM_RANGE_REGISTERED, start, bytesize, bytesize);
		range->requested_bytes = bytesize;
		range->device = context->device;
		range->context = context;
		range->flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP;
	}
	sim_unlock();
	if (result == CUDA_SUCCESS)
		sim_call_takes(start_ns, sim_call_ns(SIM_CALL_HOST_REGISTER, 1, bytesize));
	return result;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr_v2 *pdptr, void *p, unsigned int Flags)
{
	const struct sim_range *range;
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pdptr || !p || Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_live_locked((uint64_t)(uintptr_t)p);
	if (range && (is_host(range->kind) || is_registered(range->kind)))
		*pdptr = (uint64_t)(uintptr_t)p;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult sim_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	const struct sim_range *range;
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pFlags || !p)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_live_locked((uint64_t)(uintptr_t)p);
	if (range && (is_host(range->kind) || is_registered(range->kind)))
		*pFlags = range->flags;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}
