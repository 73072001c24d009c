/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the interposed dlsym, up to its assembler entry in dlsym.S, and the look-up of symbols in
 * loaded objects.
 *
 * dlsym(RTLD_NEXT, ...) is resolved by its caller's return address, so the entry jumps to the real
 * one and leaves no frame of its own. Only names of hooked entry points come to nvs_dlsym_hooked().
 *
 * No lock: the only state is the address of the real dlsym, which every thread that looks for it
 * finds to be the same.
 */
#define _GNU_SOURCE
#include "resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "driver.h"

typedef void *(*nvs_dlsym_fn)(void *handle, const char *name);

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

/*
 * glibc relocates these addresses in place; musl and the kernel's vdso leave them relative to the
 * object.
 */
static const void *nvs_at(uintptr_t base, ElfW(Addr) address)
{
	return (const void *)(address < base ? base + address : address);
}

static bool nvs_object_read(const struct dl_phdr_info *info, struct nvs_object *object)
{
	const ElfW(Dyn) *entry = NULL;
	ElfW(Xword) soname = 0;

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	if (!entry)
		return false;
	*object = (struct nvs_object){ .base = info->dlpi_addr };
	for (; entry->d_tag != DT_NULL; entry++) {
		const void *at = nvs_at(object->base, entry->d_un.d_ptr);

		switch (entry->d_tag) {
		case DT_SYMTAB:
			object->symbols = at;
			break;
		case DT_STRTAB:
			object->strings = at;
			break;
		case DT_GNU_HASH:
			object->gnu_hash = at;
			break;
		case DT_HASH:
			object->sysv_hash = at;
			break;
		case DT_SONAME:
			soname = entry->d_un.d_val;
			break;
		}
	}
	if (!object->symbols || !object->strings)
		return false;
	object->soname = soname ? object->strings + soname : NULL;
	return true;
}

static bool nvs_object_holds(const struct dl_phdr_info *info, const void *address)
{
	uintptr_t at = (uintptr_t)address;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD &&
		    at - info->dlpi_addr - segment->p_vaddr < segment->p_memsz)
			return true;
	}
	return false;
}

static void *nvs_object_match(const struct nvs_object *object, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &object->symbols[index];

	if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return NULL;
	if (strcmp(object->strings + symbol->st_name, name))
		return NULL;
	return (void *)(object->base + symbol->st_value);
}

static void *nvs_gnu_symbol(const struct nvs_object *object, const char *name)
{
	const uint32_t bucket_count = object->gnu_hash[0], first = object->gnu_hash[1],
		       bloom_words = object->gnu_hash[2];
	const uint32_t *buckets =
		object->gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chains = buckets + bucket_count;
	uint32_t hash = 5381, index;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	if (!bucket_count)
		return NULL;
	index = buckets[hash % bucket_count];
	if (index < first)
		return NULL;
	for (;; index++) {
		uint32_t chain = chains[index - first];

		if ((chain | 1) == (hash | 1)) {
			void *found = nvs_object_match(object, index, name);

			if (found)
				return found;
		}
		if (chain & 1)
			return NULL;
	}
}

static void *nvs_sysv_symbol(const struct nvs_object *object, const char *name)
{
	const ElfW(Word) bucket_count = object->sysv_hash[0];
	const ElfW(Word) *buckets = object->sysv_hash + 2, *chains = buckets + bucket_count;
	uint32_t hash = 0;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash ^= (hash >> 24) & 0xf0;
	}
	hash &= 0x0fffffff;
	if (!bucket_count)
		return NULL;
	for (ElfW(Word) index = buckets[hash % bucket_count]; index != STN_UNDEF;
	     index = chains[index]) {
		void *found = nvs_object_match(object, index, name);

		if (found)
			return found;
	}
	return NULL;
}

void *nvs_object_symbol(const struct nvs_object *object, const char *name)
{
	if (object->gnu_hash)
		return nvs_gnu_symbol(object, name);
	if (object->sysv_hash)
		return nvs_sysv_symbol(object, name);
	return NULL;
}

struct nvs_soname_search {
	const char *prefix;
	struct nvs_object *found;
};

static int nvs_soname_visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct nvs_soname_search *search = data;

	(void)size;
	if (!nvs_object_read(info, search->found) || !search->found->soname)
		return 0;
	return !strncmp(search->found->soname, search->prefix, strlen(search->prefix));
}

bool nvs_object_find(const char *prefix, struct nvs_object *found)
{
	struct nvs_soname_search search = { prefix, found };

	return dl_iterate_phdr(nvs_soname_visit, &search);
}

struct nvs_after_search {
	const void *code;
	const char *name;
	void *found;
	bool passed; /* the object with `code` */
};

static int nvs_after_visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct nvs_after_search *search = data;
	struct nvs_object object;

	(void)size;
	if (!search->passed) {
		search->passed = nvs_object_holds(info, search->code);
		return 0;
	}
	if (nvs_object_read(info, &object))
		search->found = nvs_object_symbol(&object, search->name);
	return search->found != NULL;
}

void *nvs_symbol_after(const void *code, const char *name)
{
	struct nvs_after_search search = { .code = code, .name = name };

	dl_iterate_phdr(nvs_after_visit, &search);
	return search.found;
}

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
static bool nvs_dlsym_next(const struct nvs_hook *hook, const void *caller, nvs_dlsym_fn real,
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
	nvs_dlsym_fn real = (nvs_dlsym_fn)nvs_dlsym_find();
	int saved = errno;
	void *replacement;

	if (!hook || !real)
		return answer;
	if (handle == RTLD_NEXT) {
		answer.answered = nvs_dlsym_next(hook, caller, real, &answer.value);
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
