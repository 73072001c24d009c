/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another preloaded library that stands before the driver's functions, and finds the next ones as
 * such libraries do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "abi.h"

CUresult cuMemcpyHtoD_v2(CUdeviceptr_v2 to, const void *from, size_t bytes);
void *interposer_next(const char *symbol);

void *interposer_next(const char *symbol)
{
	/* not a tail call: the caller must be this library */
	void *volatile found = dlsym(RTLD_NEXT, symbol);

	return found;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr_v2 to, const void *from, size_t bytes)
{
	CUresult (*next)(CUdeviceptr_v2, const void *, size_t) = interposer_next("cuMemcpyHtoD_v2");

	puts("interposed");
	fflush(stdout);
	return next(to, from, bytes);
}
