/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays: plain storage in rows, without the layout of a texture, and the copies of bytes of a row.
 * Protected by sim.lock.
 */
#include "memory/array.h"

#include <stdlib.h>

#include "capture/capture.h"
#include "memory/range.h"
#include "stream/stream.h"

#define PITCH_ALIGNMENT 512u

/* The bytes of one channel; 0: a format that is not simulated. */
static unsigned int channel_bytes(CUarray_format format)
{
	switch (format) {
	case 0x01: /* unsigned, signed: 8 bits */
	case 0x08:
		return 1;
	case 0x02: /* unsigned, signed, half: 16 bits */
	case 0x09:
	case 0x10:
		return 2;
	case 0x03: /* unsigned, signed, float: 32 bits */
	case 0x0a:
	case 0x20:
		return 4;
	default:
		return 0;
	}
}

CUresult sim_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v2 *pAllocateArray)
{
	struct CUarray_st layout = { 0 };
	struct sim_range *range;
	CUresult result = sim_current(&layout.context);
	size_t rows, slices;

	if (result == CUDA_SUCCESS)
		result = sim_capture_check_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle || !pAllocateArray || pAllocateArray->width == 0 ||
	    pAllocateArray->channels == 0 || pAllocateArray->channels > 4 ||
	    pAllocateArray->channels == 3)
		return CUDA_ERROR_INVALID_VALUE;
	layout.descriptor = *pAllocateArray;
	layout.element_bytes = channel_bytes(pAllocateArray->format) * pAllocateArray->channels;
	if (layout.element_bytes == 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	rows = pAllocateArray->height ? pAllocateArray->height : 1;
	slices = pAllocateArray->depth ? pAllocateArray->depth : 1;
	layout.pitch = sim_round_up(pAllocateArray->width * layout.element_bytes, PITCH_ALIGNMENT);
	layout.slice = layout.pitch * rows;
	layout.bytes = layout.slice * slices;
	sim_lock();
	result = sim_device_memory_locked(layout.context, layout.context->device, layout.bytes,
					  &range);
	if (result == CUDA_SUCCESS) {
		layout.address = range->start;
		*pHandle = malloc(sizeof(layout));
		**pHandle = layout;
		sim_register_locked(*pHandle, SIM_ARRAY);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v2 *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;

	if (!pAllocateArray)
		return sim_cuArray3DCreate_v2(pHandle, NULL);
	descriptor = (CUDA_ARRAY3D_DESCRIPTOR_v2){
		.width = pAllocateArray->width,
		.height = pAllocateArray->height,
		.format = pAllocateArray->format,
		.channels = pAllocateArray->channels,
	};
	return sim_cuArray3DCreate_v2(pHandle, &descriptor);
}

CUresult sim_cuArrayDestroy(CUarray hArray)
{
	CUresult result = sim_capture_check_unsafe();
	struct sim_range *range;

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	if (!sim_is_locked(hArray, SIM_ARRAY)) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else {
		sim_forget_locked(hArray);
		sim_context_idle_locked(hArray->context);
		range = sim_range_live_locked(hArray->address);
		if (range)
			sim_range_drop_locked(range);
		free(hArray);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR_v2 *pArrayDescriptor, CUarray hArray)
{
	CUresult result = CUDA_SUCCESS;

	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(hArray, SIM_ARRAY))
		*pArrayDescriptor = hArray->descriptor;
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

CUresult sim_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR_v2 *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;
	CUresult result = sim_cuArray3DGetDescriptor_v2(&descriptor, hArray);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR_v2){ descriptor.width, descriptor.height,
							descriptor.format, descriptor.channels };
	return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS_v1 *memoryRequirements,
					  CUarray array, CUdevice device)
{
	CUresult result = CUDA_SUCCESS;

	if (!memoryRequirements)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (sim_is_locked(array, SIM_ARRAY))
		*memoryRequirements =
			(CUDA_ARRAY_MEMORY_REQUIREMENTS_v1){ .bytes = array->bytes,
							     .alignment = PITCH_ALIGNMENT };
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

/* One side of a copy of bytes: an array from an offset on, host memory, or device memory. */
struct row {
	CUarray array;
	size_t offset;
	const void *host;
	uint64_t device;
};

static CUresult resolve(const struct row *row, size_t bytes, uint64_t *address)
{
	CUresult result = CUDA_SUCCESS;

	*address = row->host ? (uint64_t)(uintptr_t)row->host : row->device;
	if (!row->array)
		return *address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(row->array, SIM_ARRAY))
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (bytes > row->array->bytes || row->offset > row->array->bytes - bytes)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		*address = row->array->address + row->offset;
	sim_unlock();
	return result;
}

static CUresult copy_row(struct row dst, struct row src, size_t bytes, CUstream stream,
			 bool asynchronous)
{
	uint64_t to, from;
	CUresult result = resolve(&dst, bytes, &to);

	if (result == CUDA_SUCCESS)
		result = resolve(&src, bytes, &from);
	if (result != CUDA_SUCCESS)
		return result;
	return asynchronous ? sim_cuMemcpyAsync(to, from, bytes, stream)
			    : sim_cuMemcpy(to, from, bytes, stream);
}

CUresult sim_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr_v2 srcDevice,
			     size_t ByteCount, CUstream null_stream)
{
	return copy_row((struct row){ .array = dstArray, .offset = dstOffset },
			(struct row){ .device = srcDevice }, ByteCount, null_stream, false);
}

CUresult sim_cuMemcpyAtoD_v2(CUdeviceptr_v2 dstDevice, CUarray srcArray, size_t srcOffset,
			     size_t ByteCount, CUstream null_stream)
{
	return copy_row((struct row){ .device = dstDevice },
			(struct row){ .array = srcArray, .offset = srcOffset }, ByteCount,
			null_stream, false);
}

CUresult sim_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
			     size_t ByteCount, CUstream null_stream)
{
	return copy_row((struct row){ .array = dstArray, .offset = dstOffset },
			(struct row){ .host = srcHost }, ByteCount, null_stream, false);
}

CUresult sim_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
			     CUstream null_stream)
{
	return copy_row((struct row){ .host = dstHost },
			(struct row){ .array = srcArray, .offset = srcOffset }, ByteCount,
			null_stream, false);
}

CUresult sim_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
			     size_t ByteCount, CUstream null_stream)
{
	return copy_row((struct row){ .array = dstArray, .offset = dstOffset },
			(struct row){ .array = srcArray, .offset = srcOffset }, ByteCount,
			null_stream, false);
}

CUresult sim_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
				  size_t ByteCount, CUstream hStream)
{
	return copy_row((struct row){ .array = dstArray, .offset = dstOffset },
			(struct row){ .host = srcHost }, ByteCount, hStream, true);
}

CUresult sim_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
				  size_t ByteCount, CUstream hStream)
{
	return copy_row((struct row){ .host = dstHost },
			(struct row){ .array = srcArray, .offset = srcOffset }, ByteCount, hStream,
			true);
}
