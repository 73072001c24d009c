/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the interposed dlsym, up to its assembler entry in dlsym.S.
 *
 * dlsym(RTLD_NEXT, ...) is resolved by its caller's return address, so the entry jumps to the real
 * one and leaves no frame of its own. Only names that begin with "cu" come to nvs_dlsym_hooked().
 *
 * No lock: the only state is the address of the real dlsym, which every thread that looks for it
 * finds to be the same.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"
#include "driver/symbols.h"

typedef void *(*dlsym_function)(void *handle, const char *name);

/* Read by dlsym.S. */
void *nvs_real_dlsym __attribute__((visibility("hidden")));

/* What dlsym.S gets back in two registers. */
struct nvs_dlsym_answer {
	void *value;
	uintptr_t answered; /* 0: go on to the real dlsym */
};

struct nvs_dlsym_answer nvs_dlsym_hooked(void *handle, const char *name, const void *caller)
	__attribute__((visibility("hidden")));
void *nvs_dlsym_find(void) __attribute__((visibility("hidden")));

void *nvs_dlsym_find(void)
{
	void *found = __atomic_load_n(&nvs_real_dlsym, __ATOMIC_RELAXED);

	if (!found) {
		found = nvs_symbol_after((const void *)nvs_dlsym_find, "dlsym");
		__atomic_store_n(&nvs_real_dlsym, found, __ATOMIC_RELAXED);
	}
	return found;
}

/*
 * What RTLD_NEXT means for an object behind us in load order is the driver's own function, and for
 * one before us our hook; both get the hook, which ends at the driver. Anything else in between is
 * found by the real dlsym.
 */
static bool answer_next(const struct nvs_hook *hook, const void *caller, dlsym_function real,
			void **answer)
{
	void *found = nvs_symbol_after(caller, hook->name);

	if (found == hook->replacement)
		*answer = nvs_hook_real(hook) ? found : real(RTLD_NEXT, hook->name);
	else
		*answer = found ? nvs_hook_at(found) : NULL;
	return *answer || found == hook->replacement;
}

struct nvs_dlsym_answer nvs_dlsym_hooked(void *handle, const char *name, const void *caller)
{
	const struct nvs_hook *hook = nvs_hook_named(name);
	struct nvs_dlsym_answer answer = { NULL, 0 };
	dlsym_function real = (dlsym_function)nvs_dlsym_find();
	int saved = errno;
	void *replacement;

	if (!hook || !real)
		return answer;
	if (handle == RTLD_NEXT) {
		answer.answered = answer_next(hook, caller, real, &answer.value);
		errno = saved;
		return answer;
	}
	answer.answered = 1;
	answer.value = real(handle, name);
	if (answer.value == hook->replacement && !nvs_hook_real(hook))
		/* the driver lacks it: what would be found without us, or the error */
		answer.value = real(RTLD_NEXT, name);
	replacement = answer.value ? nvs_hook_at(answer.value) : NULL;
	if (replacement)
		answer.value = replacement;
	errno = saved;
	return answer;
}
