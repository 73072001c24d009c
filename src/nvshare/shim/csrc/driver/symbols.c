/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the symbol tables of loaded objects. No state, no lock of ours.
 */
#define _GNU_SOURCE
#include "driver/symbols.h"

#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

/*
 * glibc relocates these addresses in place; musl and the kernel's vdso leave them relative to the
 * object.
 */
static const void *pointer_at(uintptr_t base, ElfW(Addr) address)
{
	return (const void *)(address < base ? base + address : address);
}

/* Not strcmp: before a sanitizer is ready, its own one can't be called. */
static bool equal(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

static bool read_dynamic(uintptr_t base, const ElfW(Dyn) * entry, struct nvs_object *object)
{
	ElfW(Xword) soname = 0;

	*object = (struct nvs_object){ .base = base, .dynamic = entry };
	for (; entry->d_tag != DT_NULL; entry++) {
		const void *at = pointer_at(object->base, entry->d_un.d_ptr);

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
		case DT_RELA:
			object->relocations = at;
			break;
		case DT_RELASZ:
			object->relocations_count = entry->d_un.d_val / sizeof(nvs_elf_relocation);
			break;
		case DT_RELACOUNT:
			object->relative_count = entry->d_un.d_val;
			break;
		case DT_JMPREL:
			object->calls = at;
			break;
		case DT_PLTRELSZ:
			object->calls_count = entry->d_un.d_val / sizeof(nvs_elf_relocation);
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

static bool read_object(const struct dl_phdr_info *info, struct nvs_object *object)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return read_dynamic(
				info->dlpi_addr,
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
				object);
	return false;
}

static bool holds(const struct dl_phdr_info *info, const void *address)
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

static bool matches(const struct nvs_object *object, const nvs_elf_symbol *symbol, const char *name)
{
	return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
	       equal(object->strings + symbol->st_name, name);
}

static const nvs_elf_symbol *find_by_gnu_hash(const struct nvs_object *object, const char *name,
					      const nvs_elf_symbol *previous)
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
		const nvs_elf_symbol *symbol = &object->symbols[index];
		uint32_t chain = chains[index - first];

		if ((!previous || symbol > previous) && (chain | 1) == (hash | 1) &&
		    matches(object, symbol, name))
			return symbol;
		if (chain & 1)
			return NULL;
	}
}

static const nvs_elf_symbol *find_by_sysv_hash(const struct nvs_object *object, const char *name,
					       const nvs_elf_symbol *previous)
{
	const ElfW(Word) bucket_count = object->sysv_hash[0];
	const ElfW(Word) *buckets = object->sysv_hash + 2, *chains = buckets + bucket_count;
	uint32_t hash = 0, index;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash ^= (hash >> 24) & 0xf0;
	}
	hash &= 0x0fffffff;
	if (!bucket_count)
		return NULL;
	index = previous ? chains[previous - object->symbols] : buckets[hash % bucket_count];
	for (; index != STN_UNDEF; index = chains[index])
		if (matches(object, &object->symbols[index], name))
			return &object->symbols[index];
	return NULL;
}

const nvs_elf_symbol *nvs_object_entry(const struct nvs_object *object, const char *name,
				       const nvs_elf_symbol *previous)
{
	if (object->gnu_hash)
		return find_by_gnu_hash(object, name, previous);
	if (object->sysv_hash)
		return find_by_sysv_hash(object, name, previous);
	return NULL;
}

void *nvs_object_symbol(const struct nvs_object *object, const char *name)
{
	const nvs_elf_symbol *symbol = nvs_object_entry(object, name, NULL);

	return symbol ? (void *)(object->base + symbol->st_value) : NULL;
}

struct soname_search {
	const char *prefix;
	struct nvs_object *found;
};

static int soname_visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct soname_search *search = data;

	(void)size;
	if (!read_object(info, search->found) || !search->found->soname)
		return 0;
	return !strncmp(search->found->soname, search->prefix, strlen(search->prefix));
}

bool nvs_object_find(const char *prefix, struct nvs_object *found)
{
	struct soname_search search = { prefix, found };

	return dl_iterate_phdr(soname_visit, &search);
}

struct place_search {
	const void *address;
	struct nvs_object *found;
};

static int place_visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct place_search *search = data;

	(void)size;
	return holds(info, search->address) && read_object(info, search->found);
}

bool nvs_object_of(const void *address, struct nvs_object *found)
{
	struct place_search search = { address, found };

	return dl_iterate_phdr(place_visit, &search);
}

bool nvs_object_needs(const struct nvs_object *object, const char *soname)
{
	for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_NEEDED && equal(object->strings + entry->d_un.d_val, soname))
			return true;
	return false;
}

struct after_search {
	const void *code;
	const char *name;
	void *found;
	bool passed; /* the object with `code` */
};

static int after_visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct after_search *search = data;
	struct nvs_object object;

	(void)size;
	if (!search->passed) {
		search->passed = holds(info, search->code);
		return 0;
	}
	if (read_object(info, &object))
		search->found = nvs_object_symbol(&object, search->name);
	return search->found != NULL;
}

void *nvs_symbol_after(const void *code, const char *name)
{
	struct after_search search = { .code = code, .name = name };

	dl_iterate_phdr(after_visit, &search);
	return search.found;
}

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* The loader's list of objects, from the place in the program where debuggers find it. */
static const struct link_map *first_object(void)
{
	const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	const size_t count = headers ? getauxval(AT_PHNUM) : 0;
	const ElfW(Dyn) *entry = NULL;
	uintptr_t base = 0;

	for (size_t i = 0; i < count; i++)
		if (headers[i].p_type == PT_PHDR)
			base = (uintptr_t)headers - headers[i].p_vaddr;
	for (size_t i = 0; i < count; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			entry = (const ElfW(Dyn) *)(base + headers[i].p_vaddr);
	for (; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr)
			return ((const struct r_debug *)entry->d_un.d_ptr)->r_map;
	return NULL;
}

void *nvs_symbol_behind_us(const char *name)
{
	const struct link_map *map = first_object();
	struct nvs_object object;
	void *found = NULL;

	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	for (; map && !found; map = map->l_next)
		if (map->l_ld != _DYNAMIC && read_dynamic(map->l_addr, map->l_ld, &object))
			found = nvs_object_symbol(&object, name);
	return found ? found : nvs_symbol_after((const void *)nvs_symbol_behind_us, name);
}

struct visit {
	void (*each)(const struct nvs_object *object, void *data);
	void *data;
};

static int visit_one(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct visit *visit = data;
	struct nvs_object object;

	(void)size;
	if (read_object(info, &object))
		visit->each(&object, visit->data);
	return 0;
}

void nvs_objects_visit(void (*each)(const struct nvs_object *object, void *data), void *data)
{
	dl_iterate_phdr(visit_one, &(struct visit){ each, data });
}

static int added_visit(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_adds;
	return 1;
}

uint64_t nvs_objects_added(void)
{
	uint64_t added = 0;

	dl_iterate_phdr(added_visit, &added);
	return added;
}

void *nvs_symbol_anywhere(const char *name)
{
	struct after_search search = { .name = name, .passed = true };

	dl_iterate_phdr(after_visit, &search);
	return search.found;
}
