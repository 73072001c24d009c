/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the exported functions of NCCL's names, and the entries: for each object in which such a
 * function was looked up, a set of them that goes on to that object's. A set is never taken back,
 * and brought up to date whenever its object is met: one that is loaded again where it was has it
 * again. No lock: threads that meet the same object write the same.
 *
 * The exported functions exist in every process, also where there is no NCCL. dlsym does not find
 * them there (loader.c). Only a program with a weak reference to one, which asks whether it is
 * NULL, believes that it has NCCL; when it calls, it gets ncclSystemError. Redirecting the symbol
 * tables of NCCL instead would not have that flaw, but nothing of ours runs when an object is
 * loaded: a program's first communicator would come before it.
 */
#define _GNU_SOURCE
#include "driver/nccl.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/redirect.h"
#include "driver/symbols.h"
#include "process/ends.h"
#include "process/notices.h"

#define SETS 8

enum {
#define PLACE(symbol, parameters, arguments) AT_##symbol,
	NVS_NCCL_CALLS(PLACE)
#undef PLACE
	FUNCTIONS
};

static struct {
	_Atomic(const void *) object; /* the symbol table of its object; NULL: not given out */
	_Atomic bool redirected;      /* that table leads to the set */
	_Atomic(void *) functions[FUNCTIONS];
} sets[SETS];

#define ENTRY(number, symbol, parameters, arguments)                                    \
	static int symbol##_##number parameters                                         \
	{                                                                               \
		return nvs_nccl_##symbol((nvs_nccl_##symbol##_call *)atomic_load(       \
			&sets[number].functions[AT_##symbol]) NVS_NCCL_REST arguments); \
	}
#define ENTRY_0(symbol, parameters, arguments) ENTRY(0, symbol, parameters, arguments)
#define ENTRY_1(symbol, parameters, arguments) ENTRY(1, symbol, parameters, arguments)
#define ENTRY_2(symbol, parameters, arguments) ENTRY(2, symbol, parameters, arguments)
#define ENTRY_3(symbol, parameters, arguments) ENTRY(3, symbol, parameters, arguments)
#define ENTRY_4(symbol, parameters, arguments) ENTRY(4, symbol, parameters, arguments)
#define ENTRY_5(symbol, parameters, arguments) ENTRY(5, symbol, parameters, arguments)
#define ENTRY_6(symbol, parameters, arguments) ENTRY(6, symbol, parameters, arguments)
#define ENTRY_7(symbol, parameters, arguments) ENTRY(7, symbol, parameters, arguments)
NVS_NCCL_CALLS(ENTRY_0)
NVS_NCCL_CALLS(ENTRY_1)
NVS_NCCL_CALLS(ENTRY_2)
NVS_NCCL_CALLS(ENTRY_3)
NVS_NCCL_CALLS(ENTRY_4)
NVS_NCCL_CALLS(ENTRY_5)
NVS_NCCL_CALLS(ENTRY_6)
NVS_NCCL_CALLS(ENTRY_7)

static void *find_for(const char *name, const void *caller);

/* Callers outside find them under NCCL's names, we under these, whoever else defines those names.
 */
#define EXPORT(symbol, parameters, arguments)                                           \
	static int exported_##symbol parameters                                         \
	{                                                                               \
		return nvs_nccl_##symbol((nvs_nccl_##symbol##_call *)find_for(          \
			#symbol, __builtin_return_address(0)) NVS_NCCL_REST arguments); \
	}                                                                               \
	extern int symbol parameters                                                    \
		__attribute__((alias("exported_" #symbol), visibility("default")));
NVS_NCCL_CALLS(EXPORT)

static const struct {
	const char *name;
	const void *exported;
	void *entries[SETS];
} functions[FUNCTIONS] = {
#define ROW(symbol, parameters, arguments)                                                  \
	{ #symbol,                                                                          \
	  (const void *)exported_##symbol,                                                  \
	  { (void *)symbol##_0, (void *)symbol##_1, (void *)symbol##_2, (void *)symbol##_3, \
	    (void *)symbol##_4, (void *)symbol##_5, (void *)symbol##_6, (void *)symbol##_7 } },
	NVS_NCCL_CALLS(ROW)
};

static int place_of(const char *name)
{
	for (int at = 0; at < FUNCTIONS; at++)
		if (!strcmp(functions[at].name, name))
			return at;
	return -1;
}

const void *nvs_nccl_exported(const char *name)
{
	int at = place_of(name);

	return at < 0 ? NULL : functions[at].exported;
}

static bool is_ours(const struct nvs_object *object)
{
	return nvs_object_symbol(object, functions[0].name) == functions[0].exported;
}

void *nvs_nccl_beside(const void *function, const char *name)
{
	struct nvs_object object;

	return nvs_object_of(function, &object) && !is_ours(&object)
		       ? nvs_object_symbol(&object, name)
		       : NULL;
}

/* Sets */

/* The number of an object's set; -1: there is none left. */
static int set_of(const struct nvs_object *object)
{
	for (int number = 0; number < SETS; number++) {
		const void *owner = NULL;

		if (!atomic_compare_exchange_strong(&sets[number].object, &owner,
						    object->symbols) &&
		    owner != object->symbols)
			continue;
		for (int at = 0; at < FUNCTIONS; at++) {
			void *found = nvs_object_symbol(object, functions[at].name);

			/* What was redirected leads to us, and was noted before. */
			if (found != functions[at].entries[number])
				atomic_store(&sets[number].functions[at], found);
		}
		return number;
	}
	return -1;
}

void *nvs_nccl_entry(const char *name, void *function)
{
	int at = place_of(name), number;
	struct nvs_object object;

	if (at < 0 || !nvs_object_of(function, &object) || is_ours(&object))
		return function;
	number = set_of(&object);
	/* Somebody may have a name twice, and mean this one. */
	return number >= 0 && sets[number].functions[at] == function ? functions[at].entries[number]
								     : function;
}

/* What a caller is linked with */

/* What the program and all of its scope find: after us, as RTLD_NEXT means it. */
static void *find_globally(const char *name)
{
	void *(*look_up)(void *, const char *) =
		(void *(*)(void *, const char *))nvs_symbol_behind_us("dlsym");
	char *(*forget_error)(void) = (char *(*)(void))nvs_symbol_behind_us("dlerror");
	void *found = look_up ? look_up(RTLD_NEXT, name) : NULL;

	if (!found && forget_error)
		forget_error();
	return found;
}

struct scope {
	const char *name;
	const struct nvs_object *asks;
	void *linked; /* in the object itself, or in one that it was linked with */
	void *first;  /* in load order, whoever asks */
};

static void look_into(const struct nvs_object *object, void *data)
{
	struct scope *scope = data;
	bool itself = object->symbols == scope->asks->symbols;
	void *found = is_ours(object) ? NULL : nvs_object_symbol(object, scope->name);

	if (!found)
		return;
	if (!scope->first)
		scope->first = found;
	if (itself || (!scope->linked && object->soname && scope->asks->symbols &&
		       nvs_object_needs(scope->asks, object->soname)))
		scope->linked = found;
}

static struct scope scope_of(const void *caller, struct nvs_object *asks, const char *name)
{
	struct scope scope = { .name = name, .asks = asks };

	if (!nvs_object_of(caller, asks))
		*asks = (struct nvs_object){ 0 };
	nvs_objects_visit(look_into, &scope);
	return scope;
}

void *nvs_nccl_seen_by(const void *caller, const char *name)
{
	void *found = find_globally(name);
	struct nvs_object asks;

	return found ? found : scope_of(caller, &asks, name).linked;
}

/* Whoever has found ours: there is some NCCL that it means. */
static void *find_for(const char *name, const void *caller)
{
	NVS_KEEP_ERRNO;
	void *found = nvs_nccl_seen_by(caller, name);
	struct nvs_object asks;

	if (!found)
		found = scope_of(caller, &asks, name).first;
	return found;
}

/* Redirection */

struct found {
	int count;
	struct nvs_object objects[SETS];
};

static void collect(const struct nvs_object *object, void *data)
{
	struct found *found = data;

	if (found->count < SETS && object->soname && !is_ours(object) &&
	    nvs_object_symbol(object, functions[0].name))
		found->objects[found->count++] = *object;
}

static void *entry_noted(const void *noted)
{
	for (int number = 0; noted && number < SETS; number++)
		for (int at = 0; at < FUNCTIONS && atomic_load(&sets[number].redirected); at++)
			if (atomic_load(&sets[number].functions[at]) == noted)
				return functions[at].entries[number];
	return NULL;
}

static bool redirect(int memory, int number, const struct nvs_object *object)
{
	bool done = true;

	nvs_keep_in_memory(object->soname);
	atomic_store(&sets[number].redirected, true);
	for (int at = 0; at < FUNCTIONS; at++)
		if (atomic_load(&sets[number].functions[at]))
			done &= nvs_redirect_symbol(memory, object, functions[at].name,
						    functions[at].entries[number]);
	return nvs_redirect_notes(memory, object, entry_noted) && done;
}

void nvs_nccl_redirect(void)
{
	struct found found = { 0 };
	NVS_KEEP_ERRNO;
	int memory NVS_ENDS(nvs_redirect_end) = -1;
	bool done = true;

	nvs_objects_visit(collect, &found);
	if (found.count)
		memory = nvs_redirect_begin();
	for (int i = 0; i < found.count; i++) {
		int number = set_of(&found.objects[i]);

		if (number >= 0 && !atomic_load(&sets[number].redirected))
			done &= memory >= 0 && redirect(memory, number, &found.objects[i]);
	}
	if (!done)
		nvs_notice(NVS_NOTICE_NOT_REDIRECTED);
}
