/* SPDX-License-Identifier: Apache-2.0 */
/* The memsets: the calls, and carrying one out. Owns nothing; the memory is pinned meanwhile. */
#include "copy/memset.h"

#include <string.h>

#include "memory/range.h"
#include "stream/stream.h"

#define SPARSE_FROM_BYTES SIM_KIB(64)

static void fill_row(uint64_t address, uint64_t count, uint32_t value, uint32_t element_bytes)
{
	unsigned char *at = sim_reach(address);

	if (value == 0 && sim_window_contains(address) &&
	    count * element_bytes >= SPARSE_FROM_BYTES) {
		sim_discard(address, count * element_bytes);
		return;
	}
	if (element_bytes == 1) {
		memset(at, (int)value, count);
		return;
	}
	for (uint64_t i = 0; i < count; i++)
		memcpy(at + i * element_bytes, &value, element_bytes);
}

CUresult sim_memset_run(struct CUctx_st *context, const struct sim_memset *set)
{
	uint64_t row = set->width * set->element_bytes;
	uint64_t extent = (set->height - 1) * set->pitch + row;
	CUresult result;

	if (set->width == 0 || set->height == 0)
		return CUDA_SUCCESS;
	result = sim_pin(context, set->address, extent, SIM_WRITE, false, true);
	if (result != CUDA_SUCCESS)
		return result;
	if (set->pitch == row || set->height == 1) {
		fill_row(set->address, set->width * set->height, set->value, set->element_bytes);
	} else {
		for (uint64_t y = 0; y < set->height; y++)
			fill_row(set->address + y * set->pitch, set->width, set->value,
				 set->element_bytes);
	}
	sim_unpin(context, set->address, extent);
	return CUDA_SUCCESS;
}

static bool is_writable_locked(const struct sim_range *range)
{
	const struct CUctx_st *context = sim_current_locked();

	return context && range->access[context->device] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

CUresult sim_memset_check(const struct sim_memset *set)
{
	uint64_t row = set->width * set->element_bytes;
	const struct sim_range *range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (set->address % set->element_bytes != 0 || set->pitch % set->element_bytes != 0 ||
	    (set->height > 1 && set->pitch < row))
		return result;
	if (set->width == 0 || set->height == 0)
		return CUDA_SUCCESS;
	sim_lock();
	range = sim_range_live_locked(set->address);
	if (range && range->kind == SIM_RANGE_MAPPED)
		result = is_writable_locked(range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	else if (range && ((set->height - 1) * set->pitch + row <=
			   range->start + range->bytes - set->address))
		result = CUDA_SUCCESS;
	sim_unlock();
	return result;
}

static CUresult set_rows(uint64_t dst, size_t pitch, uint32_t value, uint32_t element_bytes,
			 size_t width, size_t height, CUstream stream)
{
	struct sim_op op = { .kind = SIM_OP_MEMSET };
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	op.context = context;
	op.u.memset = (struct sim_memset){ dst, pitch, width, height, value, element_bytes };
	result = sim_memset_check(&op.u.memset);
	if (result != CUDA_SUCCESS || width == 0 || height == 0)
		return result;
	return sim_submit(stream, &op, NULL);
}

static CUresult set_row(uint64_t dst, uint32_t value, uint32_t element_bytes, size_t count,
			CUstream stream)
{
	return set_rows(dst, count * element_bytes, value, element_bytes, count, 1, stream);
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N,
			   CUstream null_stream)
{
	return set_row(dstDevice, uc, 1, N, null_stream);
}

CUresult sim_cuMemsetD16_v2(CUdeviceptr_v2 dstDevice, unsigned short us, size_t N,
			    CUstream null_stream)
{
	return set_row(dstDevice, us, 2, N, null_stream);
}

CUresult sim_cuMemsetD32_v2(CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N,
			    CUstream null_stream)
{
	return set_row(dstDevice, ui, 4, N, null_stream);
}

CUresult sim_cuMemsetD2D8_v2(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc,
			     size_t Width, size_t Height, CUstream null_stream)
{
	return set_rows(dstDevice, dstPitch, uc, 1, Width, Height, null_stream);
}

CUresult sim_cuMemsetD2D16_v2(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us,
			      size_t Width, size_t Height, CUstream null_stream)
{
	return set_rows(dstDevice, dstPitch, us, 2, Width, Height, null_stream);
}

CUresult sim_cuMemsetD2D32_v2(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui,
			      size_t Width, size_t Height, CUstream null_stream)
{
	return set_rows(dstDevice, dstPitch, ui, 4, Width, Height, null_stream);
}

CUresult sim_cuMemsetD8Async(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return set_row(dstDevice, uc, 1, N, hStream);
}

CUresult sim_cuMemsetD16Async(CUdeviceptr_v2 dstDevice, unsigned short us, size_t N,
			      CUstream hStream)
{
	return set_row(dstDevice, us, 2, N, hStream);
}

CUresult sim_cuMemsetD32Async(CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return set_row(dstDevice, ui, 4, N, hStream);
}

CUresult sim_cuMemsetD2D8Async(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc,
			       size_t Width, size_t Height, CUstream hStream)
{
	return set_rows(dstDevice, dstPitch, uc, 1, Width, Height, hStream);
}

CUresult sim_cuMemsetD2D16Async(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us,
				size_t Width, size_t Height, CUstream hStream)
{
	return set_rows(dstDevice, dstPitch, us, 2, Width, Height, hStream);
}

CUresult sim_cuMemsetD2D32Async(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui,
				size_t Width, size_t Height, CUstream hStream)
{
	return set_rows(dstDevice, dstPitch, ui, 4, Width, Height, hStream);
}
