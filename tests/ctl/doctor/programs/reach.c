/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach HOW KERNELS.PTX: comes to the driver's functions in one way, and keeps a GPU busy with them
 * for a second and a half. Exit status 0: all calls succeeded.
 *
 *   dlsym     as programs do
 *   asked     dlsym, and cuGetProcAddress for what launches
 *   table     dlsym, and a table of functions without names for what launches
 *   parse     reads the driver's symbol table by itself, for everything
 *   context   the same, but for cuInit and cuDeviceGet
 *   dlmopen   opens the driver in a namespace of its own
 *   open      opens the driver, calls none of its functions, and waits as long
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "abi.h"

#define ROUNDS 15
#define ROUND_NS 100000000ull

struct table {
	size_t bytes;
	CUresult (*launch)(CUfunction f, unsigned int blocks, unsigned int threads, CUstream stream,
			   void **parameters);
};

static const char *how;
static void *driver;

static void check(const char *what, CUresult result)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %d\n", what, result);
	exit(1);
}

/* Of an object that is in memory, as its link map describes it. */
static void *parsed(const char *name)
{
	const struct link_map *map = driver;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const ElfW(Dyn) * entry;

	for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
		if (entry->d_tag == DT_STRTAB)
			strings = (const char *)entry->d_un.d_ptr;
	}
	/* The strings come behind the symbols. */
	for (; symbols && (const char *)symbols < strings; symbols++)
		if (symbols->st_shndx != SHN_UNDEF && !strcmp(strings + symbols->st_name, name))
			return (void *)(map->l_addr + symbols->st_value);
	return NULL;
}

static void *find(const char *name)
{
	int begins = !strcmp(name, "cuInit") || !strcmp(name, "cuDeviceGet");
	void *found;

	if (!strcmp(how, "parse") || (!strcmp(how, "context") && !begins))
		found = parsed(name);
	else
		found = dlsym(driver, name);
	if (found)
		return found;
	fprintf(stderr, "%s is not found\n", name);
	exit(1);
}

#define CALL(symbol, types, ...) check(#symbol, ((CUresult(*) types)find(#symbol))(__VA_ARGS__))

static void launch(CUfunction spin, void **parameters)
{
	CUuuid id = { "nvshare-simgpu-1" };
	const struct table *table;
	void *found;
	int status;

	if (!strcmp(how, "table")) {
		CALL(cuGetExportTable, (const void **, const CUuuid *), (const void **)&table, &id);
		check("launch", table->launch(spin, 1, 1, NULL, parameters));
		return;
	}
	found = NULL;
	if (!strcmp(how, "asked"))
		CALL(cuGetProcAddress_v2, (const char *, void **, int, cuuint64_t, int *),
		     "cuLaunchKernel", &found, 12080, 0, &status);
	else
		found = find("cuLaunchKernel");
	check("cuLaunchKernel",
	      ((CUresult (*)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			     unsigned int, unsigned int, unsigned int, CUstream, void **,
			     void **))found)(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
}

static char *kernels(const char *path)
{
	static char text[1 << 20];
	FILE *file = fopen(path, "r");

	if (!file || !fread(text, 1, sizeof(text) - 1, file)) {
		perror(path);
		exit(1);
	}
	fclose(file);
	return text;
}

static void work(const char *path)
{
	unsigned long long nanoseconds = ROUND_NS;
	void *parameters[] = { &nanoseconds };
	CUfunction spin;
	CUcontext context;
	CUmodule module;
	CUdevice device;

	CALL(cuInit, (unsigned int), 0);
	CALL(cuDeviceGet, (CUdevice *, int), &device, 0);
	CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, device);
	CALL(cuCtxSetCurrent, (CUcontext), context);
	CALL(cuModuleLoadData, (CUmodule *, const void *), &module, kernels(path));
	CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &spin, module,
	     "nvs_spin");
	for (int i = 0; i < ROUNDS; i++) {
		launch(spin, parameters);
		CALL(cuCtxSynchronize, (void), );
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	how = argv[1];
#ifdef LM_ID_NEWLM
	if (!strcmp(how, "dlmopen"))
		driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	else
#endif
		driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (strcmp(how, "open"))
		work(argv[2]);
	else
		nanosleep(&(struct timespec){ 1, 500000000 }, NULL);
	return 0;
}
