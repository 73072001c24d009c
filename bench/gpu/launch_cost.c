/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library adds to a launch, in one process: blocks of launches through the hook and past
 * it, alternating.
 *
 *   gcc -O2 -o launch_cost bench/gpu/launch_cost.c -ldl && nvshare-ctl run -- ./launch_cost
 *
 * The hook is what dlsym gives; the driver's own function is found in libcuda's symbol table.
 * Prints the medians in nanoseconds per launch of an empty kernel and their ratio, then the same
 * for launches that are each waited for, and for host functions.
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

#define BLOCKS 101
#define LAUNCHES 4000
#define HOST_FUNCTIONS 400

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			 unsigned, void *, void **, void **);

typedef int (*host_fn)(void *stream, void (*function)(void *), void *data);

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, BLOCKS, sizeof(*values), by_value);
	return values[BLOCKS / 2];
}

/* The address of a symbol in the object itself, whatever stands before it. */
static void *own_symbol(void *handle, const char *name)
{
	struct link_map *map;
	const Elf64_Sym *symbols = NULL;
	const char *strings = NULL;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map))
		return NULL;
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = (const Elf64_Sym *)d->d_un.d_ptr;
		if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr;
	}
	/* The string table follows the symbols, as every linker lays them out. */
	for (const Elf64_Sym *s = symbols; s && (const char *)s < strings; s++)
		if (!strcmp(strings + s->st_name, name))
			return (void *)(map->l_addr + s->st_value);
	return NULL;
}

static void nothing(void *data)
{
	(void)data;
}

static void print(const char *what, double sides[2][BLOCKS])
{
	double past = median(sides[0]), through = median(sides[1]);

	printf("%s: %.1f ns past the hook, %.1f ns through it, ratio %.4f\n", what, past, through,
	       past / through);
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *kernel;
	int (*init)(unsigned) = dlsym(driver, "cuInit");
	int (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
	int (*set_current)(void *) = dlsym(driver, "cuCtxSetCurrent");
	int (*load)(void **, const void *) = dlsym(driver, "cuModuleLoadData");
	int (*get)(void **, void *, const char *) = dlsym(driver, "cuModuleGetFunction");
	int (*synchronize)(void) = dlsym(driver, "cuCtxSynchronize");
	launch_fn launch[2] = { own_symbol(driver, "cuLaunchKernel"),
				dlsym(driver, "cuLaunchKernel") };
	host_fn host[2] = { own_symbol(driver, "cuLaunchHostFunc"),
			    dlsym(driver, "cuLaunchHostFunc") };
	static double queued[2][BLOCKS], waited[2][BLOCKS], called[2][BLOCKS];

	if (!driver || !launch[0] || !launch[1] || !host[0] || !host[1] || init(0) ||
	    retain(&context, 0) || set_current(context) || load(&module, ptx) ||
	    get(&kernel, module, "nothing")) {
		fprintf(stderr, "no usable GPU\n");
		return 1;
	}
	for (int i = 0; i < 20000; i++)
		launch[i & 1](kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	for (int block = 0; block < BLOCKS; block++)
		for (int side = 0; side < 2; side++) {
			double begin;

			synchronize();
			begin = now();
			for (int i = 0; i < LAUNCHES; i++)
				launch[side](kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
			queued[side][block] = (now() - begin) / LAUNCHES;
			synchronize();
			begin = now();
			for (int i = 0; i < LAUNCHES / 10; i++) {
				launch[side](kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
				synchronize();
			}
			waited[side][block] = (now() - begin) / (LAUNCHES / 10);
			begin = now();
			for (int i = 0; i < HOST_FUNCTIONS; i++)
				host[side](NULL, nothing, NULL);
			called[side][block] = (now() - begin) / HOST_FUNCTIONS;
		}
	printf("hooked: %s\n", launch[0] == launch[1] ? "no (not under the preload)" : "yes");
	print("queued launches", queued);
	print("waited launches", waited);
	print("queued host functions", called);
	return 0;
}
