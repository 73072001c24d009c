/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches a kernel before each fork and, once it is told to, after it, in handlers that were there
 * before the driver was. They also keep memory from being freed in between, as those of some
 * mallocs do.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr_v2 *pointer, size_t bytes);
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra);

void __libc_free(void *memory);

static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;

/* In place of libc's. */
void free(void *memory)
{
	pthread_mutex_lock(&heap);
	__libc_free(memory);
	pthread_mutex_unlock(&heap);
}

static void say(const char *what, int result)
{
	printf("%s %d\n", what, result);
	fflush(stdout);
}

static void before(void)
{
	say("before", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	pthread_mutex_lock(&heap);
}

static void after(void)
{
	pthread_mutex_unlock(&heap);
	getchar();
	say("after", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static void in_child(void)
{
	pthread_mutex_unlock(&heap);
}

int main(void)
{
	CUdeviceptr_v2 memory;
	CUcontext context;
	int status = -1;
	pid_t child;

	if (pthread_atfork(before, after, in_child) || cuInit(0) ||
	    cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc_v2(&memory, 1 << 20))
		return 1;
	child = fork();
	if (!child)
		_exit(0);
	waitpid(child, &status, 0);
	say("child", status);
	return 0;
}
