/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with more static thread-local memory than a thread of the library has stack: launches
 * once, and ends with the driver's answer.
 */
#include <stddef.h>

#include "abi.h"

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra);

static _Thread_local volatile char memory[2 << 20];

int main(void)
{
	CUcontext context;

	memory[0] = 1;
	if (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 1;
	return (int)cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}
