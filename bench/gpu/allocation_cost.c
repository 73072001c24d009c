/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allocation and a free cost through the library and by the driver's own functions, in one
 * process: rounds of both, alternating.
 *
 *   gcc -O2 -o allocation_cost bench/gpu/allocation_cost.c -ldl
 *   NVSHARE_MEMORY=swap nvshare-ctl run -- ./allocation_cost [peer]
 *
 * `peer`: a second GPU and the first one have access to each other's memory, which ties them.
 * The hooks are what dlsym gives; the driver's own functions are found in libcuda's symbol table.
 * Prints the medians in nanoseconds: all allocations and then all frees, and pairs of both; beside
 * the driver's own, and their ratio. Rows "of a pool" are stream-ordered.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 7
#define MOST 10000

typedef int (*alloc_fn)(uint64_t *pointer, size_t bytes);
typedef int (*free_fn)(uint64_t pointer);

struct functions {
	alloc_fn alloc;
	free_fn free;
};

/* Nanoseconds for one. */
struct cost {
	double alloc, free, pair;
};

struct size {
	const char *name;
	size_t bytes;
	int count; /* at a time */
};

static const struct size sizes[] = {
	{ "1 KiB", 1 << 10, MOST }, { "64 KiB", 1 << 16, 2000 }, { "1 MiB", 1 << 20, 1000 },
	{ "64 MiB", 64 << 20, 20 }, { "1 GiB", 1 << 30, 4 },
};

static const struct size pool_sizes[] = {
	{ "1 MiB of a pool", 1 << 20, 64 },
	{ "32 MiB of a pool", 32 << 20, 16 },
};

static int (*hooked_alloc)(uint64_t *pointer, size_t bytes, void *stream);
static int (*hooked_free)(uint64_t pointer, void *stream);
static int (*own_alloc)(uint64_t *pointer, size_t bytes, void *stream);
static int (*own_free)(uint64_t pointer, void *stream);

static int hooked_pool_alloc(uint64_t *pointer, size_t bytes)
{
	return hooked_alloc(pointer, bytes, NULL);
}

static int hooked_pool_free(uint64_t pointer)
{
	return hooked_free(pointer, NULL);
}

static int own_pool_alloc(uint64_t *pointer, size_t bytes)
{
	return own_alloc(pointer, bytes, NULL);
}

static int own_pool_free(uint64_t pointer)
{
	return own_free(pointer, NULL);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s gave %d\n", what, result);
	exit(1);
}

static struct cost measure(const struct functions *by, size_t bytes, int count)
{
	static uint64_t pointers[MOST];
	struct cost cost;
	double start = now(), middle;

	for (int i = 0; i < count; i++)
		must(by->alloc(&pointers[i], bytes), "cuMemAlloc");
	middle = now();
	for (int i = 0; i < count; i++)
		must(by->free(pointers[i]), "cuMemFree");
	cost.alloc = (middle - start) / count;
	cost.free = (now() - middle) / count;
	start = now();
	for (int i = 0; i < count; i++) {
		must(by->alloc(&pointers[0], bytes), "cuMemAlloc");
		must(by->free(pointers[0]), "cuMemFree");
	}
	cost.pair = (now() - start) / count;
	return cost;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of one of the numbers of several rounds. */
static double median(const struct cost *costs, size_t offset)
{
	double values[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		memcpy(&values[i], (const char *)&costs[i] + offset, sizeof(values[i]));
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
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

static void compare(const struct functions *hooks, const struct functions *own,
		    const struct size *size)
{
	static const struct {
		const char *name;
		size_t offset;
	} numbers[] = {
		{ "allocation", offsetof(struct cost, alloc) },
		{ "free", offsetof(struct cost, free) },
		{ "pair", offsetof(struct cost, pair) },
	};
	struct cost through[ROUNDS], driver[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		through[i] = measure(hooks, size->bytes, size->count);
		driver[i] = measure(own, size->bytes, size->count);
	}
	for (int i = 0; i < 3; i++) {
		double a = median(through, numbers[i].offset);
		double b = median(driver, numbers[i].offset);

		printf("%-16s %-10s %10.0f ns, the driver's own %10.0f: %.2f\n", size->name,
		       numbers[i].name, a, b, a / b);
	}
}

/* The first device and the second have access to each other's memory; the first stays current. */
static void enable_peers(void *library, void *first)
{
	int (*retain)(void **, int) =
		(int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
	int (*set_current)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
	int (*enable)(void *, unsigned) =
		(int (*)(void *, unsigned))dlsym(library, "cuCtxEnablePeerAccess");
	void *second;

	must(retain(&second, 1), "cuDevicePrimaryCtxRetain");
	must(enable(second, 0), "cuCtxEnablePeerAccess");
	must(set_current(second), "cuCtxSetCurrent");
	must(enable(first, 0), "cuCtxEnablePeerAccess");
	must(set_current(first), "cuCtxSetCurrent");
}

int main(int argc, char **argv)
{
	bool peer = argc == 2 && !strcmp(argv[1], "peer");

	if (argc > 1 && !peer) {
		fprintf(stderr, "%s: the only argument is `peer`\n", argv[1]);
		return 2;
	}

	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
	int (*retain)(void **, int) =
		(int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
	int (*set_current)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
	struct functions hooks = { (alloc_fn)dlsym(library, "cuMemAlloc_v2"),
				   (free_fn)dlsym(library, "cuMemFree_v2") };
	struct functions own = { (alloc_fn)own_symbol(library, "cuMemAlloc_v2"),
				 (free_fn)own_symbol(library, "cuMemFree_v2") };
	struct functions hooked_pool = { hooked_pool_alloc, hooked_pool_free };
	struct functions own_pool = { own_pool_alloc, own_pool_free };

	*(void **)&hooked_alloc = dlsym(library, "cuMemAllocAsync");
	*(void **)&hooked_free = dlsym(library, "cuMemFreeAsync");
	*(void **)&own_alloc = own_symbol(library, "cuMemAllocAsync");
	*(void **)&own_free = own_symbol(library, "cuMemFreeAsync");
	if (!own.alloc || !own.free || own.alloc == hooks.alloc) {
		fprintf(stderr, "there is no library between this program and the driver\n");
		return 1;
	}
	must(init(0), "cuInit");
	must(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(set_current(context), "cuCtxSetCurrent");
	if (peer)
		enable_peers(library, context);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		compare(&hooks, &own, &sizes[i]);
	for (size_t i = 0; i < sizeof(pool_sizes) / sizeof(pool_sizes[0]); i++)
		compare(&hooked_pool, &own_pool, &pool_sizes[i]);
	return 0;
}
