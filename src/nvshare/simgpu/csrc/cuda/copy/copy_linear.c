/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that copy one row of bytes, from cuMemcpy on. Owns nothing. */
#include <stdlib.h>
#include <string.h>

#include "copy/copy.h"
#include "memory/range.h"
#include "stream/stream.h"

/* A driver copies this much pageable memory, or less, at the call itself. */
#define STAGED_BYTES SIM_KIB(64)

enum side {
	HOST,
	DEVICE,
	ANY
};

struct end {
	uint64_t address;
	enum side side;
	struct CUctx_st *context; /* as in struct sim_place */
};

/* Whether any rights were given to the device. */
static bool is_accessible_locked(const struct sim_range *range, const struct CUctx_st *context)
{
	if (!context)
		context = sim_current_locked();
	return context && range->access[context->device] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/* A copy from one registered piece of host memory into the next is refused. */
static bool crosses_locked(const struct sim_range *range, uint64_t address, uint64_t bytes)
{
	const struct sim_range *behind = sim_range_next_locked(range->start + range->span);

	return behind && behind->start < address + bytes;
}

enum sim_home sim_home_of(uint64_t address, uint64_t bytes, const struct CUctx_st *context)
{
	enum sim_home home = SIM_HOME_DEVICE;
	const struct sim_range *range;

	sim_lock();
	range = sim_range_live_locked(address);
	if (!range)
		home = sim_window_contains(address) ? SIM_HOME_BEYOND : SIM_HOME_PAGEABLE;
	else if (range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_REGISTERED)
		home = crosses_locked(range, address, bytes) ? SIM_HOME_BEYOND : SIM_HOME_PINNED;
	else if (range->kind == SIM_RANGE_MAPPED && !is_accessible_locked(range, context))
		home = SIM_HOME_BEYOND;
	else if (range->kind != SIM_RANGE_MAPPED && bytes > range->start + range->bytes - address)
		home = SIM_HOME_BEYOND;
	sim_unlock();
	return home;
}

void sim_copy_route(struct sim_copy *copy, enum sim_home dst, enum sim_home src)
{
	if ((dst == SIM_HOME_DEVICE) == (src == SIM_HOME_DEVICE))
		copy->route = SIM_ROUTE_NO_BUS;
	else
		copy->route = dst == SIM_HOME_DEVICE ? SIM_ROUTE_TO_DEVICE : SIM_ROUTE_TO_HOST;
	copy->pageable = dst == SIM_HOME_PAGEABLE || src == SIM_HOME_PAGEABLE;
}

static bool fits(enum side side, enum sim_home home)
{
	if (home == SIM_HOME_BEYOND)
		return false;
	return side != DEVICE || home != SIM_HOME_PAGEABLE;
}

/*
 * Whether the call must wait until the copy is done, because its host memory may change or be
 * looked at afterwards.
 */
static bool must_wait(bool asynchronous, enum sim_home dst, enum sim_home src)
{
	if (dst == SIM_HOME_PAGEABLE || src == SIM_HOME_PAGEABLE)
		return true;
	return !asynchronous && (dst == SIM_HOME_PINNED || src == SIM_HOME_PINNED);
}

static bool is_capturing(CUstream handle)
{
	struct CUstream_st *stream;
	bool capturing;

	sim_lock();
	capturing = sim_stream_locked(handle, &stream) == CUDA_SUCCESS && stream->capture;
	sim_unlock();
	return capturing;
}

CUresult sim_copy_submit(struct sim_op *op, CUstream stream, bool asynchronous, enum sim_home dst,
			 enum sim_home src)
{
	struct sim_copy *copy = &op->u.copy;
	CUresult result;

	if (!must_wait(asynchronous, dst, src) || is_capturing(stream))
		return sim_submit(stream, op, NULL);
	if (src != SIM_HOME_PAGEABLE || dst == SIM_HOME_PAGEABLE || copy->width > STAGED_BYTES ||
	    copy->height * copy->depth > 1)
		return sim_submit_and_wait(stream, op);
	copy->staged = malloc(copy->width);
	memcpy(copy->staged, (const void *)(uintptr_t)copy->src.address, copy->width);
	result = sim_submit(stream, op, NULL);
	if (result != CUDA_SUCCESS)
		free(copy->staged);
	return result;
}

static CUresult copy_ends(const struct end *dst, const struct end *src, size_t bytes,
			  CUstream stream, bool asynchronous)
{
	struct sim_op op = { .kind = SIM_OP_COPY };
	struct CUctx_st *context;
	CUresult result = sim_current(&context);
	enum sim_home dst_home, src_home;

	if (result != CUDA_SUCCESS || bytes == 0)
		return result;
	dst_home = sim_home_of(dst->address, bytes, dst->context);
	src_home = sim_home_of(src->address, bytes, src->context);
	if (!dst->address || !src->address || !fits(dst->side, dst_home) ||
	    !fits(src->side, src_home))
		return CUDA_ERROR_INVALID_VALUE;
	op.context = context;
	op.u.copy = (struct sim_copy){
		.src = { .address = src->address,
			 .context = src->context,
			 .pitch = bytes,
			 .slice = bytes,
			 .host = src_home == SIM_HOME_PAGEABLE },
		.dst = { .address = dst->address,
			 .context = dst->context,
			 .pitch = bytes,
			 .slice = bytes,
			 .host = dst_home == SIM_HOME_PAGEABLE },
		.width = bytes,
		.height = 1,
		.depth = 1,
	};
	sim_copy_route(&op.u.copy, dst_home, src_home);
	return sim_copy_submit(&op, stream, asynchronous, dst_home, src_home);
}

static CUresult copy_linear(uint64_t dst, enum side dst_side, uint64_t src, enum side src_side,
			    size_t bytes, CUstream stream, bool asynchronous)
{
	return copy_ends(&(struct end){ dst, dst_side, NULL }, &(struct end){ src, src_side, NULL },
			 bytes, stream, asynchronous);
}

static uint64_t host(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

CUresult sim_cuMemcpy(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount,
		      CUstream null_stream)
{
	return copy_linear(dst, ANY, src, ANY, ByteCount, null_stream, false);
}

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount,
			     CUstream null_stream)
{
	return copy_linear(dstDevice, DEVICE, host(srcHost), HOST, ByteCount, null_stream, false);
}

CUresult sim_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr_v2 srcDevice, size_t ByteCount,
			     CUstream null_stream)
{
	return copy_linear(host(dstHost), HOST, srcDevice, DEVICE, ByteCount, null_stream, false);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice, size_t ByteCount,
			     CUstream null_stream)
{
	return copy_linear(dstDevice, DEVICE, srcDevice, DEVICE, ByteCount, null_stream, false);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount,
			   CUstream hStream)
{
	return copy_linear(dst, ANY, src, ANY, ByteCount, hStream, true);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount,
				  CUstream hStream)
{
	return copy_linear(dstDevice, DEVICE, host(srcHost), HOST, ByteCount, hStream, true);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr_v2 srcDevice, size_t ByteCount,
				  CUstream hStream)
{
	return copy_linear(host(dstHost), HOST, srcDevice, DEVICE, ByteCount, hStream, true);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice,
				  size_t ByteCount, CUstream hStream)
{
	return copy_linear(dstDevice, DEVICE, srcDevice, DEVICE, ByteCount, hStream, true);
}

static bool are_contexts(CUcontext one, CUcontext other)
{
	bool valid;

	sim_lock();
	valid = sim_is_locked(one, SIM_CONTEXT) && sim_is_locked(other, SIM_CONTEXT);
	sim_unlock();
	return valid;
}

CUresult sim_cuMemcpyPeer(CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice,
			  CUcontext srcContext, size_t ByteCount, CUstream null_stream)
{
	if (!are_contexts(dstContext, srcContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy_ends(&(struct end){ dstDevice, DEVICE, dstContext },
			 &(struct end){ srcDevice, DEVICE, srcContext }, ByteCount, null_stream,
			 false);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr_v2 dstDevice, CUcontext dstContext,
			       CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount,
			       CUstream hStream)
{
	if (!are_contexts(dstContext, srcContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy_ends(&(struct end){ dstDevice, DEVICE, dstContext },
			 &(struct end){ srcDevice, DEVICE, srcContext }, ByteCount, hStream, true);
}

CUresult sim_cuMemcpyWithAttributesAsync(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t size,
					 CUmemcpyAttributes_v1 *attr, CUstream hStream)
{
	if (!attr || attr->order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	    attr->order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_linear(dst, ANY, src, ANY, size, hStream, true);
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr_v2 *dsts, CUdeviceptr_v2 *srcs, size_t *sizes,
				   size_t count, CUmemcpyAttributes_v1 *attrs, size_t *attrIdxs,
				   size_t numAttrs, CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;

	if (!dsts || !srcs || !sizes || count == 0 || !attrs || !attrIdxs || numAttrs == 0 ||
	    numAttrs > count || attrIdxs[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = copy_linear(dsts[i], ANY, srcs[i], ANY, sizes[i], hStream, true);
	return result;
}

CUresult sim_cuMemcpyBatchAsync(CUdeviceptr_v2 *dsts, CUdeviceptr_v2 *srcs, size_t *sizes,
				size_t count, CUmemcpyAttributes_v1 *attrs, size_t *attrIdxs,
				size_t numAttrs, size_t *failIdx, CUstream hStream)
{
	CUresult result = sim_cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrIdxs,
						    numAttrs, hStream);

	if (result != CUDA_SUCCESS && failIdx)
		*failIdx = SIZE_MAX;
	return result;
}
