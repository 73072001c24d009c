/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long allocations and frees take: SIZE COUNT HELD.
 *
 * COUNT allocations of SIZE bytes, HELD of them at a time: so many allocations, then so many frees,
 * over and over. Prints the nanoseconds of one allocation and of one free. The program holds the
 * device from the beginning, so nothing waits for a turn.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long long address_t;

static int (*allocate)(address_t *address, size_t size);
static int (*give_back)(address_t address);

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "libcuda has no %s\n", name);
		exit(1);
	}
	return found;
}

static void demand(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "%s: %d\n", what, result);
		exit(1);
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void use_device(void *library)
{
	int (*init)(unsigned int) = symbol(library, "cuInit");
	int (*retain)(void **, int) = symbol(library, "cuDevicePrimaryCtxRetain");
	int (*set_current)(void *) = symbol(library, "cuCtxSetCurrent");
	int (*set)(address_t, unsigned char, size_t) = symbol(library, "cuMemsetD8_v2");
	int (*synchronize)(void) = symbol(library, "cuCtxSynchronize");
	void *context;
	address_t first;

	demand(init(0), "cuInit");
	demand(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	demand(set_current(context), "cuCtxSetCurrent");
	demand(allocate(&first, 4096), "cuMemAlloc");
	demand(set(first, 0, 4096), "cuMemsetD8");
	demand(synchronize(), "cuCtxSynchronize");
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	double allocating = 0, freeing = 0;

	if (argc != 4 || !library) {
		fprintf(stderr, "%s\n", library ? "SIZE COUNT HELD" : dlerror());
		return 2;
	}
	allocate = symbol(library, "cuMemAlloc_v2");
	give_back = symbol(library, "cuMemFree_v2");
	use_device(library);

	size_t size = strtoull(argv[1], NULL, 10);
	long count = strtol(argv[2], NULL, 10), held = strtol(argv[3], NULL, 10);
	address_t *addresses = calloc((size_t)held, sizeof(*addresses));

	if (!addresses)
		return 2;
	for (long done = 0; done < count; done += held) {
		double begin = now();

		for (long i = 0; i < held; i++)
			demand(allocate(&addresses[i], size), "cuMemAlloc");
		double middle = now();

		for (long i = 0; i < held; i++)
			demand(give_back(addresses[i]), "cuMemFree");
		allocating += middle - begin;
		freeing += now() - middle;
	}
	printf("%.1f %.1f\n", allocating / (double)count, freeing / (double)count);
	return 0;
}
