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
#include "driver/driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "driver/redirect.h"
#include "driver/symbols.h"
#include "process/ends.h"
#include "process/notices.h"
#include "process/sleepless.h"

struct nvs_real nvs_real;

static const struct nvs_hook hooks[] = {
#define EACH(symbol, parameters) { #symbol, (void *)nvs_hook_##symbol, false },
#define PASS(symbol, parameters, arguments, why) { #symbol, (void *)nvs_hook_##symbol, true },
#define FREE(symbol, parameters, arguments) PASS(symbol, parameters, arguments, NULL)
#include "hooks.def"
};

#define HOOK_COUNT (sizeof(hooks) / sizeof(hooks[0]))
#define BUCKET_BITS 11
#define BUCKETS (1 << BUCKET_BITS)

_Static_assert(HOOK_COUNT * 2 < BUCKETS, "the table of addresses must stay half empty");

static void *addresses[HOOK_COUNT]; /* the driver's function behind each hook */
/* open addressing; number of a hook plus one, 0: empty */
static uint16_t by_address[BUCKETS];
static bool loaded;
static _Atomic bool redirected;

static unsigned int bucket_of(const void *address)
{
	return (unsigned int)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15ULL >>
			      (64 - BUCKET_BITS));
}

static void index_addresses(void)
{
	uint16_t table[BUCKETS] = { 0 };

	for (size_t i = 0; i < HOOK_COUNT; i++) {
		void *address = __atomic_load_n(&addresses[i], __ATOMIC_RELAXED);
		unsigned int bucket = bucket_of(address);

		if (!address)
			continue;
		while (table[bucket])
			bucket = (bucket + 1) % BUCKETS;
		table[bucket] = (uint16_t)(i + 1);
	}
	for (size_t i = 0; i < BUCKETS; i++)
		__atomic_store_n(&by_address[i], table[i], __ATOMIC_RELAXED);
}

void nvs_keep_in_memory(const char *soname)
{
	void *(*open)(const char *, int) =
		(void *(*)(const char *, int))nvs_symbol_behind_us("dlopen");

	if (open)
		open(soname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void nvs_driver_load(void)
{
	struct nvs_object driver;
	NVS_KEEP_ERRNO;
	void *address;
	size_t i = 0;

	if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE) || !nvs_object_find("libcuda.so", &driver))
		return;
	/* Slots hold addresses and must not dangle. */
	nvs_keep_in_memory(driver.soname);
/* Another thread may have come further, and have redirected the driver: then all is there. */
#define EACH(symbol, parameters)                                                         \
	address = nvs_object_symbol(&driver, #symbol);                                   \
	if (address != (void *)nvs_hook_##symbol) {                                      \
		__atomic_store_n(&nvs_real.symbol, (__typeof__(nvs_real.symbol))address, \
				 __ATOMIC_RELAXED);                                      \
		__atomic_store_n(&addresses[i], address, __ATOMIC_RELAXED);              \
	}                                                                                \
	i++;
#include "hooks.def"
	index_addresses();
	__atomic_store_n(&loaded, true, __ATOMIC_RELEASE);
}

static bool redirect(int memory, const struct nvs_object *driver)
{
	bool done = true;

	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (__atomic_load_n(&addresses[i], __ATOMIC_RELAXED))
			done &= nvs_redirect_symbol(memory, driver, hooks[i].name,
						    hooks[i].replacement);
	/* Last: an object that is being loaded meanwhile finds the hooks in the symbol table. */
	return done && nvs_redirect_notes(memory, driver, nvs_hook_at);
}

bool nvs_driver_redirect(void)
{
	struct nvs_object driver;
	NVS_KEEP_ERRNO;
	int memory NVS_ENDS(nvs_redirect_end) = -1;

	nvs_driver_load();
	if (!__atomic_load_n(&loaded, __ATOMIC_ACQUIRE) || atomic_exchange(&redirected, true))
		return atomic_load(&redirected);
	memory = nvs_redirect_begin();
	if (memory < 0 || !nvs_object_find("libcuda.so", &driver) || !redirect(memory, &driver)) {
		nvs_sleepless("not all of its calls of the driver are seen");
		nvs_notice(NVS_NOTICE_NOT_REDIRECTED);
	}
	return true;
}

const struct nvs_hook *nvs_hook_named(const char *name)
{
	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (!strcmp(hooks[i].name, name))
			return &hooks[i];
	return NULL;
}

const struct nvs_hook *nvs_hook_of(const void *replacement)
{
	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (hooks[i].replacement == replacement)
			return &hooks[i];
	return NULL;
}

void *nvs_hook_real(const struct nvs_hook *hook)
{
	nvs_driver_load();
	return __atomic_load_n(&addresses[hook - hooks], __ATOMIC_RELAXED);
}

void *nvs_hook_at(const void *real)
{
	nvs_driver_load();
	if (!__atomic_load_n(&loaded, __ATOMIC_ACQUIRE))
		return NULL;
	for (unsigned int bucket = bucket_of(real);; bucket = (bucket + 1) % BUCKETS) {
		uint16_t entry = __atomic_load_n(&by_address[bucket], __ATOMIC_RELAXED);

		if (!entry)
			return NULL;
		if (__atomic_load_n(&addresses[entry - 1], __ATOMIC_RELAXED) == real)
			return hooks[entry - 1].replacement;
	}
}
