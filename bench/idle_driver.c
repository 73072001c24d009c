/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose functions do nothing, at once: what is measured over it is the library alone. */
#include <string.h>

#include "abi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	memset(uuid, device, sizeof(*uuid));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	*bytes = (size_t)(device + 1) << 30;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	*context = (CUcontext)(uintptr_t)(0x1000 + device);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = (CUcontext)0x1000;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	*mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	*event = (CUevent)(uintptr_t)(flags + 1);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return event && !stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
	return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT __attribute__((noinline)) CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value,
							size_t bytes)
{
	__asm__ volatile("" : : "r"(to), "r"(value), "r"(bytes));
	return CUDA_SUCCESS;
}

/* The same by a name that is not hooked. */
EXPORT CUresult idle_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes)
	__attribute__((alias("cuMemsetD8_v2")));
