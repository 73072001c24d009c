/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which object a name leads to: routes ROUTE SYMBOL... prints a line for each symbol, the file name
 * of the object or "none". Routes: handle (dlopen and dlsym), default (RTLD_DEFAULT), next
 * (RTLD_NEXT from this program), v1 and v2 (cuGetProcAddress of CUDA 12.8), thread (v2 for
 * per-thread default streams), call (the result of a direct call, needs the driver at link time).
 * With -DOPENED=FILE that one was opened before, for itself alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"

#ifdef LINKED
CUresult cuMemcpyHtoD_v2(CUdeviceptr_v2 to, const void *from, size_t bytes);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
				     CUmemcpyAttributes_v1 *attributes, CUstream stream);
#endif

static void *ask(void *driver, const char *symbol, int version, int flags)
{
	CUresult (*v1)(const char *, void **, int, cuuint64_t) = dlsym(driver, "cuGetProcAddress");
	CUresult (*v2)(const char *, void **, int, cuuint64_t, int *) =
		dlsym(driver, "cuGetProcAddress_v2");
	void *found = NULL;
	int status;

	if (version == 1)
		return v1(symbol, &found, 12080, (cuuint64_t)flags) ? NULL : found;
	return v2(symbol, &found, 12080, (cuuint64_t)flags, &status) ? NULL : found;
}

static void *find(void *driver, const char *route, const char *symbol)
{
	if (!strcmp(route, "handle"))
		return dlsym(driver, symbol);
	if (!strcmp(route, "default"))
		return dlsym(RTLD_DEFAULT, symbol);
	if (!strcmp(route, "next"))
		return dlsym(RTLD_NEXT, symbol);
	if (!strcmp(route, "v1"))
		return ask(driver, symbol, 1, 0);
	return ask(driver, symbol, 2,
		   strcmp(route, "thread") ? 0 : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

static void say(const char *symbol, void *found)
{
	Dl_info info = { .dli_fname = "none" };
	const char *slash;

	if (found)
		dladdr(found, &info);
	slash = strrchr(info.dli_fname, '/');
	printf("%s %s %s\n", symbol, slash ? slash + 1 : info.dli_fname,
	       found && info.dli_sname ? info.dli_sname : "-");
}

int main(int argc, char **argv)
{
	void *driver =
		strcmp(argv[1], "absent") ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;

#ifdef OPENED
	dlopen(OPENED, RTLD_NOW | RTLD_LOCAL);
#endif
	for (int i = 2; i < argc; i++) {
		void *found;

		dlerror();
		found = find(driver, strcmp(argv[1], "absent") ? argv[1] : "default", argv[i]);
		if (!found && argv[1][0] != 'v' && argv[1][0] != 't' && !dlerror())
			puts("no error message");
		say(argv[i], found);
	}
#ifdef LINKED
	say("linked", (void *)cuMemcpyHtoD_v2);
	printf("call %d\n", cuMemcpyWithAttributesAsync(0, 0, 0, NULL, NULL));
#endif
	return 0;
}
