/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the addresses of NVML's own functions. No lock, as in driver.c: threads that find the table
 * empty fill it with the same values, and publish last.
 */
#include "driver/nvml.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/redirect.h"
#include "driver/symbols.h"
#include "process/ends.h"
#include "process/terms.h"

#define SONAME "libnvidia-ml.so"

static const struct {
	const char *name;
	void *hook; /* NULL: it is only called */
} functions[NVS_NVML_FUNCTIONS] = {
#define HOOK(symbol, parameters) [NVS_NVML_AT_##symbol] = { #symbol, (void *)nvs_hook_##symbol },
#define CALL(symbol, parameters) [NVS_NVML_AT_##symbol] = { #symbol, NULL },
	NVS_NVML_HOOKS(HOOK) NVS_NVML_CALLS(CALL)
};

static _Atomic(void *) addresses[NVS_NVML_FUNCTIONS];
static _Atomic bool loaded, redirected;

static bool load(void)
{
	struct nvs_object nvml;

	if (atomic_load(&loaded))
		return true;
	/* What can't say which device a handle means is another one. */
	if (!nvs_object_find(SONAME, &nvml) || !nvs_object_symbol(&nvml, "nvmlDeviceGetUUID"))
		return false;
	nvs_keep_in_memory(nvml.soname);
	for (int at = 0; at < NVS_NVML_FUNCTIONS; at++) {
		void *own = nvs_object_symbol(&nvml, functions[at].name);

		/* Another thread may have come further, and have redirected it. */
		if (!own || own != functions[at].hook)
			atomic_store(&addresses[at], own);
	}
	atomic_store(&loaded, true);
	return true;
}

void *nvs_nvml_real(enum nvs_nvml_function which)
{
	return atomic_load(&addresses[which]);
}

void *nvs_nvml_hook(const char *name, const void *found)
{
	for (int at = 0; found && at < NVS_NVML_FUNCTIONS; at++)
		if (!strcmp(functions[at].name, name))
			return atomic_load(&addresses[at]) == found ? functions[at].hook : NULL;
	return NULL;
}

static void *hook_of(const void *noted)
{
	for (int at = 0; noted && at < NVS_NVML_FUNCTIONS; at++)
		if (atomic_load(&addresses[at]) == noted)
			return functions[at].hook;
	return NULL;
}

/* Where the memory resists, what is looked up by dlsym still leads to the hooks. */
static void redirect(void)
{
	int memory NVS_ENDS(nvs_redirect_end) = nvs_redirect_begin();
	struct nvs_object nvml;

	if (memory < 0 || !nvs_object_find(SONAME, &nvml))
		return;
	for (int at = 0; at < NVS_NVML_FUNCTIONS; at++)
		if (functions[at].hook && atomic_load(&addresses[at]))
			nvs_redirect_symbol(memory, &nvml, functions[at].name, functions[at].hook);
	/* Last: an object that is being loaded meanwhile finds the symbol table so. */
	nvs_redirect_notes(memory, &nvml, hook_of);
}

void nvs_nvml_look(void)
{
	NVS_KEEP_ERRNO;

	if (load() && nvs_terms()->memory_limit_bytes && !atomic_exchange(&redirected, true))
		redirect();
}
