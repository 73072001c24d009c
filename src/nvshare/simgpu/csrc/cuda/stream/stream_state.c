/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked and set about a stream. Protected by sim.lock. */
#include <string.h>

#include "stream/stream.h"

/* Finds a stream if there is room for the answer; the lock is held on success. */
static CUresult lock_stream(CUstream handle, const void *answer, struct CUstream_st **stream)
{
	CUresult result;

	if (!answer)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(handle, stream);
	if (result != CUDA_SUCCESS)
		sim_unlock();
	return result;
}

CUresult sim_cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct CUstream_st *stream;
	CUresult result = lock_stream(hStream, priority, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	*priority = stream->priority;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct CUstream_st *stream;
	CUresult result = lock_stream(hStream, flags, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	*flags = stream->flags;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct CUstream_st *stream;
	CUresult result = lock_stream(hStream, streamId, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	*streamId = stream->id;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct CUstream_st *stream;
	CUresult result = lock_stream(hStream, pctx, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	*pctx = stream->context;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pctx, CUgreenCtx *pGreenCtx)
{
	CUresult result = sim_cuStreamGetCtx(hStream, pctx);

	if (result == CUDA_SUCCESS && pGreenCtx)
		*pGreenCtx = NULL;
	return result;
}

CUresult sim_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	CUcontext context;
	CUresult result;

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_cuStreamGetCtx(hStream, &context);
	if (result == CUDA_SUCCESS)
		*device = context->device;
	return result;
}

/* The attributes that a stream has. */
static bool has_attribute(CUstreamAttrID attribute)
{
	return attribute == 1 || attribute == 3 || attribute == 8 || attribute == 9 ||
	       attribute == 10;
}

CUresult sim_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
				  CUstreamAttrValue_v1 *value)
{
	struct CUstream_st *stream;
	CUresult result;

	if (!value || !has_attribute(attr))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		*value = stream->attributes[attr];
	if (result == CUDA_SUCCESS && attr == 8)
		value->priority = stream->priority;
	sim_unlock();
	return result;
}

CUresult sim_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
				  const CUstreamAttrValue_v1 *param)
{
	struct CUstream_st *stream;
	CUresult result;

	if (!param || !has_attribute(attr))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	result = sim_stream_locked(hStream, &stream);
	if (result == CUDA_SUCCESS)
		stream->attributes[attr] = *param;
	sim_unlock();
	return result;
}

CUresult sim_cuStreamCopyAttributes(CUstream dstStream, CUstream srcStream)
{
	struct CUstream_st *dst;
	struct CUstream_st *src;
	CUresult result;

	sim_lock();
	result = sim_stream_locked(dstStream, &dst);
	if (result == CUDA_SUCCESS)
		result = sim_stream_locked(srcStream, &src);
	if (result == CUDA_SUCCESS)
		memcpy(dst->attributes, src->attributes, sizeof(dst->attributes));
	sim_unlock();
	return result;
}
