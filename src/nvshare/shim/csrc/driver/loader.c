/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the interposed functions of the dynamic loader, up to their assembler entries in loader.S.
 *
 * The real functions find out by the return address who asks: what RTLD_NEXT means, in which
 * folders a file is looked for, in which namespace. So the entries jump to them and leave no frame
 * of their own, and nothing of ours can run when they return. What an open brought is therefore
 * looked at by the next call that comes here.
 *
 * RTLD_DEEPBIND. An object that is opened so looks for names in itself and in what it needs before
 * it looks where we are: it finds libc's dlsym, and libcuda's own functions. To take the flag out
 * would be simpler, but programs give it because they need it: Julia opens everything so, to keep
 * its libraries apart from others of the same names. It stays, and instead the objects' symbol
 * tables are changed in memory (redirect.c): in libc's these four names lead to our entries, and in
 * libcuda's every hooked name leads to its hook. What such an object noted before that, because it
 * brought libcuda along by itself, is corrected as well: at the latest when its cuInit opens what
 * it needs. All of this happens in processes that use the flag, and in no others.
 *
 * NCCL. Its functions that make and end communicators are found in the same ways (nccl.h).
 *
 * dlvsym. Programs with a dlsym of their own find the real one by it; they find ours, in the same
 * way. The driver's functions have no versions, so it finds none of them.
 *
 * NVML. Its names are not exported, so the real dlsym alone knows what its caller finds; where that
 * is NVML's own function, the hook is given (nvml.h).
 *
 * dlmopen. Another namespace has a libcuda of its own, with contexts of its own, to which our slots
 * don't lead: it can't be gated. It is seen and said.
 *
 * No lock. Threads that look for the real functions find the same.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/nccl.h"
#include "driver/nvml.h"
#include "driver/redirect.h"
#include "driver/symbols.h"
#include "driver/uses.h"
#include "driver/watch.h"
#include "process/ends.h"

#define HIDDEN __attribute__((visibility("hidden")))

typedef void *(*dlsym_function)(void *handle, const char *name);

/* The entries, in the order of loader.S. */
HIDDEN extern char nvs_dlsym[], nvs_dlvsym[], nvs_dlopen[], nvs_dlmopen[];

static const struct {
	const char *name;
	const void *entry;
} functions[] = {
	{ "dlsym", nvs_dlsym },
	{ "dlvsym", nvs_dlvsym },
	{ "dlopen", nvs_dlopen },
	{ "dlmopen", nvs_dlmopen },
};

#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))
#define DLSYM 0

/* Read by loader.S. */
HIDDEN void *nvs_loader_real[FUNCTIONS];

/* What loader.S gets back in two registers. */
struct nvs_dlsym_answer {
	void *value;
	uintptr_t answered; /* 0: go on to the real dlsym */
};

HIDDEN void *nvs_loader_find(int which);
HIDDEN struct nvs_dlsym_answer nvs_dlsym_hooked(void *handle, const char *name, const void *caller);
HIDDEN void nvs_dlvsym_asked(const void *handle, const char *name);
HIDDEN void nvs_dlopen_asked(const char *file, int mode);
HIDDEN void nvs_dlmopen_apart(void);

void *nvs_loader_find(int which)
{
	void *found = __atomic_load_n(&nvs_loader_real[which], __ATOMIC_RELAXED);

	if (!found) {
		found = nvs_symbol_behind_us(functions[which].name);
		__atomic_store_n(&nvs_loader_real[which], found, __ATOMIC_RELAXED);
	}
	return found;
}

/*
 * Where somebody else stands between us and the function, that one has found the function already,
 * and may look for it again: it must not find us, who call it.
 */
static bool redirect_from(int memory, const struct nvs_object *library)
{
	bool done = true;

	for (size_t i = 0; i < FUNCTIONS; i++) {
		void *own = nvs_object_symbol(library, functions[i].name);

		if (own && own != functions[i].entry)
			done &= own == nvs_loader_real[i] &&
				nvs_redirect_symbol(memory, library, functions[i].name,
						    functions[i].entry);
	}
	return done;
}

/* Whoever finds libc's functions finds our entries. False: somebody may not. */
static bool redirect_loader(void)
{
	static const char *const libraries[] = { "libc.so.", "libdl.so." };
	bool done = true;
	int memory NVS_ENDS(nvs_redirect_end) = -1;
	struct nvs_object library;

	/* Before they can't be found by name any more. */
	for (size_t i = 0; i < FUNCTIONS; i++)
		nvs_loader_find((int)i);
	memory = nvs_redirect_begin();
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (nvs_object_find(libraries[i], &library))
			done &= redirect_from(memory, &library);
	return done;
}

void nvs_dlopen_asked(const char *file, int mode)
{
	NVS_KEEP_ERRNO;

	(void)file;
	if (mode & RTLD_DEEPBIND)
		nvs_watch_for_driver(redirect_loader());
	else
		nvs_watch_look();
}

void nvs_dlmopen_apart(void)
{
	nvs_watch_for_second_driver();
}

void nvs_dlvsym_asked(const void *handle, const char *name)
{
	NVS_KEEP_ERRNO;

	(void)handle;
	for (size_t i = 0; i < FUNCTIONS; i++)
		if (!strcmp(name, functions[i].name))
			redirect_loader();
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

/*
 * The hook, where the real dlsym finds NVML's own function. NULL: the real dlsym answers, which
 * knows better than we what its caller may find.
 */
static void *answer_nvml(void *handle, const char *name, const void *caller, dlsym_function real)
{
	void *found;

	nvs_nvml_look();
	found = real(handle, name);
	if (handle == RTLD_NEXT && found != nvs_symbol_after(caller, name))
		return NULL;
	return nvs_nvml_hook(name, found);
}

/* What is found behind us, or nothing, with the error that tells so. */
static void *look_behind(const char *name, dlsym_function real)
{
	void *found = real(RTLD_NEXT, name);

	return found ? nvs_nccl_entry(name, found) : NULL;
}

/*
 * Ours stand where there is a function of that name without us; and what is found in an object
 * leads to the entry for just that object. False: the real dlsym finds nothing of ours.
 */
static bool answer_nccl(const void *exported, void *handle, const char *name, const void *caller,
			dlsym_function real, void **answer)
{
	if (handle == RTLD_NEXT && nvs_symbol_after(caller, name) != exported)
		return false;
	if (handle == RTLD_NEXT) {
		*answer = look_behind(name, real);
		return true;
	}
	*answer = real(handle, name);
	if (*answer == exported)
		*answer = nvs_nccl_seen_by(caller, name);
	else if (!*answer)
		return true;
	*answer = *answer ? nvs_nccl_entry(name, *answer) : look_behind(name, real);
	return true;
}

static struct nvs_dlsym_answer answer_hook(const struct nvs_hook *hook, void *handle,
					   const char *name, const void *caller,
					   dlsym_function real)
{
	struct nvs_dlsym_answer answer = { NULL, 1 };
	void *replacement;

	if (handle == RTLD_NEXT) {
		answer.answered = answer_next(hook, caller, real, &answer.value);
		nvs_uses_named(hook, answer.answered ? answer.value : NULL);
		return answer;
	}
	answer.value = real(handle, name);
	if (answer.value == hook->replacement && !nvs_hook_real(hook))
		/* the driver lacks it: what would be found without us, or the error */
		answer.value = real(RTLD_NEXT, name);
	replacement = answer.value ? nvs_hook_at(answer.value) : NULL;
	if (replacement)
		answer.value = replacement;
	nvs_uses_named(hook, answer.value);
	return answer;
}

struct nvs_dlsym_answer nvs_dlsym_hooked(void *handle, const char *name, const void *caller)
{
	const struct nvs_hook *hook = nvs_hook_named(name);
	const void *exported = nvs_nccl_exported(name);
	struct nvs_dlsym_answer answer = { NULL, 0 };
	dlsym_function real = (dlsym_function)nvs_loader_find(DLSYM);
	NVS_KEEP_ERRNO;

	nvs_watch_look();
	if (real && !strncmp(name, "nvml", 4)) {
		answer.value = answer_nvml(handle, name, caller, real);
		answer.answered = answer.value != NULL;
	} else if (exported && real) {
		answer.answered = answer_nccl(exported, handle, name, caller, real, &answer.value);
	} else if (hook && real) {
		answer = answer_hook(hook, handle, name, caller, real);
	} else {
		nvs_uses_unhooked(name);
	}
	return answer;
}
