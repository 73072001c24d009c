/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the slots with the driver's functions and the table that leads from their addresses to our
 * hooks.
 *
 * No lock: threads that find the tables empty fill them with the same values at the same time, and
 * publish last. (A lock would be held around calls of the dynamic loader, whose own lock is held
 * around constructors that may call CUDA.)
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "resolve.h"

struct nvs_real nvs_real;

static const struct nvs_hook nvs_hooks[] = {
#define GATE(symbol, parameters, arguments, stream) { #symbol, (void *)nvs_hook_##symbol },
#define HOOK(symbol, parameters) { #symbol, (void *)nvs_hook_##symbol },
#include "hooks.def"
};

#define NVS_HOOK_COUNT (sizeof(nvs_hooks) / sizeof(nvs_hooks[0]))
#define NVS_BUCKETS 1024

_Static_assert(NVS_HOOK_COUNT * 2 < NVS_BUCKETS, "the table of addresses must stay half empty");

static void *nvs_addresses[NVS_HOOK_COUNT]; /* the driver's function behind each hook */
/* open addressing; number of a hook plus one, 0: empty */
static uint16_t nvs_by_address[NVS_BUCKETS];
static bool nvs_loaded;

static unsigned int nvs_bucket(const void *address)
{
	return (unsigned int)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15ULL >> 54);
}

static void nvs_index_addresses(void)
{
	uint16_t table[NVS_BUCKETS] = { 0 };

	for (size_t i = 0; i < NVS_HOOK_COUNT; i++) {
		void *address = __atomic_load_n(&nvs_addresses[i], __ATOMIC_RELAXED);
		unsigned int bucket = nvs_bucket(address);

		if (!address)
			continue;
		while (table[bucket])
			bucket = (bucket + 1) % NVS_BUCKETS;
		table[bucket] = (uint16_t)(i + 1);
	}
	for (size_t i = 0; i < NVS_BUCKETS; i++)
		__atomic_store_n(&nvs_by_address[i], table[i], __ATOMIC_RELAXED);
}

/*
 * Slots hold addresses and must not dangle: the driver stays in memory for as long as the process
 * lives.
 */
static void nvs_driver_keep(const char *soname)
{
	void *(*open)(const char *, int) = (void *(*)(const char *, int))nvs_symbol_after(
		(const void *)nvs_driver_keep, "dlopen");

	if (open)
		open(soname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void nvs_driver_load(void)
{
	struct nvs_object driver;
	int saved = errno;
	void *address;
	size_t i = 0;

	if (__atomic_load_n(&nvs_loaded, __ATOMIC_ACQUIRE) ||
	    !nvs_object_find("libcuda.so", &driver))
		return;
	nvs_driver_keep(driver.soname);
#define CALL(symbol, parameters)                       \
	address = nvs_object_symbol(&driver, #symbol); \
	__atomic_store_n(&nvs_real.symbol, (__typeof__(nvs_real.symbol))address, __ATOMIC_RELAXED);
#define HOOK(symbol, parameters) \
	CALL(symbol, parameters) \
	__atomic_store_n(&nvs_addresses[i++], address, __ATOMIC_RELAXED);
#define GATE(symbol, parameters, arguments, stream) HOOK(symbol, parameters)
#include "hooks.def"
	nvs_index_addresses();
	__atomic_store_n(&nvs_loaded, true, __ATOMIC_RELEASE);
	errno = saved;
}

const struct nvs_hook *nvs_hook_named(const char *name)
{
	for (size_t i = 0; i < NVS_HOOK_COUNT; i++)
		if (!strcmp(nvs_hooks[i].name, name))
			return &nvs_hooks[i];
	return NULL;
}

void *nvs_hook_real(const struct nvs_hook *hook)
{
	nvs_driver_load();
	return __atomic_load_n(&nvs_addresses[hook - nvs_hooks], __ATOMIC_RELAXED);
}

void *nvs_hook_at(const void *real)
{
	nvs_driver_load();
	if (!__atomic_load_n(&nvs_loaded, __ATOMIC_ACQUIRE))
		return NULL;
	for (unsigned int bucket = nvs_bucket(real);; bucket = (bucket + 1) % NVS_BUCKETS) {
		uint16_t entry = __atomic_load_n(&nvs_by_address[bucket], __ATOMIC_RELAXED);

		if (!entry)
			return NULL;
		if (__atomic_load_n(&nvs_addresses[entry - 1], __ATOMIC_RELAXED) == real)
			return nvs_hooks[entry - 1].replacement;
	}
}
