/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the driver what a CUDA runtime asked it: requests LOG... reads lines "v1|v2 NAME VERSION
 * FLAGS" (the name may be empty) and prints for each the result, the object and the symbol that it
 * led to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

typedef CUresult (*ask_v1)(const char *name, void **function, int version, cuuint64_t flags);
typedef CUresult (*ask_v2)(const char *name, void **function, int version, cuuint64_t flags,
			   int *status);

static void replay(void *driver, char *line)
{
	char *name = line + 3, *version = strchr(name, ' ');
	void *found = NULL;
	Dl_info info;
	int status = -1;
	CUresult result;

	*version++ = '\0';
	if (line[1] == '1')
		result = ((ask_v1)dlsym(driver, "cuGetProcAddress"))(
			name, &found, atoi(version), (cuuint64_t)atoi(strchr(version, ' ')));
	else
		result = ((ask_v2)dlsym(driver, "cuGetProcAddress_v2"))(
			name, &found, atoi(version), (cuuint64_t)atoi(strchr(version, ' ')),
			&status);
	if (!found || !dladdr(found, &info))
		printf("%d %d none -\n", result, status);
	else
		printf("%d %d %s %s\n", result, status, strrchr(info.dli_fname, '/') + 1,
		       info.dli_sname);
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	char line[256];

	for (int i = 1; i < argc; i++) {
		FILE *log = fopen(argv[i], "r");

		while (fgets(line, sizeof(line), log))
			if (!strncmp(line, "v1 ", 3) || !strncmp(line, "v2 ", 3))
				replay(driver, line);
		fclose(log);
	}
	return 0;
}
