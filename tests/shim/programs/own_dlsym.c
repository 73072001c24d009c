/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a dlsym of its own, which finds libc's by dlvsym as such programs do. Prints where
 * a function of the driver leads to, then the same by a library that calls this dlsym.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void *(*dlsym_function)(void *handle, const char *name);

static int calls;

void *dlsym(void *handle, const char *name)
{
	static dlsym_function real;

	calls++;
	if (!real)
		real = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", VERSION);
	return real(handle, name);
}

int main(void)
{
	void *found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyHtoD_v2");
	Dl_info info = { .dli_fname = "none" };

	dladdr(found, &info);
	printf("%s %d\n", strrchr(info.dli_fname, '/') + 1, calls);
	return 0;
}
