/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked with the driver: one direct call; says how often the driver was entered, and where the
 * interposer's next one lies.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"

CUresult cuMemcpyHtoD_v2(CUdeviceptr_v2 to, const void *from, size_t bytes);
int spy_count(const char *symbol);

int main(void)
{
	void *(*next)(const char *) =
		(void *(*)(const char *))dlsym(RTLD_DEFAULT, "interposer_next");
	Dl_info info;

	dladdr(next("cuMemcpyHtoD_v2"), &info);
	printf("next %s\n", strrchr(info.dli_fname, '/') + 1);
	dladdr(next("fclose"), &info);
	printf("other %s\n",
	       strncmp(strrchr(info.dli_fname, '/') + 1, "libc.", 5) ? info.dli_fname : "libc");
	printf("result %d\n", cuMemcpyHtoD_v2(0, NULL, 0));
	printf("entered %d\n", spy_count("cuMemcpyHtoD_v2"));
	return 0;
}
