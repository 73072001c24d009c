/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches a kernel, with a handler of SIGTERM that says so: a program without Python.
 */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "abi.h"

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra);

static void note(int number)
{
	(void)number;
	(void)!write(STDOUT_FILENO, "handled 15\n", 11);
}

int main(void)
{
	struct sigaction action = { .sa_handler = note };
	CUcontext context;

	if (sigaction(SIGTERM, &action, NULL) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context))
		return 1;
	if (cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
		return 1;
	(void)!write(STDOUT_FILENO, "result 0\n", 9);
	return 0;
}
