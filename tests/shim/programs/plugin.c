/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that uses the driver: reach(ROUTE) is where a function of the driver leads to from here.
 * Routes: open (dlopen and dlsym), and with the driver at link time
 * call (a function that is called), address (one whose address is taken), data (one that a variable
 * points to). own is where a name leads to that the program has as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "abi.h"

#define NAME "cuMemcpyHtoD_v2"

void *reach(const char *route);
void give(void *(*function)(const char *)) __attribute__((weak)); /* the program's */
void *common(void);

void *common(void)
{
	return (void *)common;
}

#ifdef LINKED
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
			     int *status);
CUresult cuMemcpyHtoD_v2(CUdeviceptr_v2 to, const void *from, size_t bytes);

static void *volatile data = (void *)cuMemcpyHtoD_v2;

static void *linked(const char *route)
{
	void *found = NULL;
	int status;

	if (!strcmp(route, "call"))
		return cuGetProcAddress_v2("cuMemcpyHtoD", &found, 12080, 0, &status) ? NULL
										      : found;
	return strcmp(route, "data") ? (void *)cuMemcpyHtoD_v2 : data;
}
#else
static void *linked(const char *route)
{
	(void)route;
	return NULL;
}
#endif

static void __attribute__((constructor)) start(void)
{
	if (give)
		give(reach);
}

void *reach(const char *route)
{
	if (!strcmp(route, "own"))
		return common();
	if (!strcmp(route, "open"))
		return dlsym(dlopen("libcuda.so.1", RTLD_NOW), NAME);
	return linked(route);
}
