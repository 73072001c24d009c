/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking symbols up in the loaded objects' own tables, without the dynamic loader's dlsym: that
 * name is ours. Nothing here allocates, locks anything of ours or changes errno; each call takes
 * the loader's lock for a moment, so none may be made while a lock of ours is held.
 */
#pragma once

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef ElfW(Sym) nvs_elf_symbol;
typedef ElfW(Rela) nvs_elf_relocation;

struct nvs_object {
	uintptr_t base;
	const ElfW(Dyn) * dynamic;
	const nvs_elf_symbol *symbols; /* never NULL, and no other object's */
	const char *strings;
	const char *soname;	      /* NULL: has none */
	const uint32_t *gnu_hash;     /* NULL: has none */
	const ElfW(Word) * sysv_hash; /* NULL: has none */
	const nvs_elf_relocation *relocations;
	size_t relocations_count;
	size_t relative_count;		 /* of them, the first ones, which name no symbol */
	const nvs_elf_relocation *calls; /* the relocations of its calls of others */
	size_t calls_count;
};

/*
 * The first loaded object, in load order and without this library, whose soname begins with
 * `prefix`.
 */
bool nvs_object_find(const char *prefix, struct nvs_object *found);
/* The loaded object that an address lies in; false: in none. */
bool nvs_object_of(const void *address, struct nvs_object *found);
/* The object was linked with one of that name. */
bool nvs_object_needs(const struct nvs_object *object, const char *soname);
/* A function that the object defines; NULL: none of that name. */
void *nvs_object_symbol(const struct nvs_object *object, const char *name);
/*
 * The next entry of that name in its symbol table (there may be one for each version); `previous`
 * is NULL for the first. NULL: no more.
 */
const nvs_elf_symbol *nvs_object_entry(const struct nvs_object *object, const char *name,
				       const nvs_elf_symbol *previous);
/*
 * The first definition of a function in the objects that were loaded after the one that `code` lies
 * in; NULL: none.
 */
void *nvs_symbol_after(const void *code, const char *name);
/*
 * The same for this library, which is loaded with the program. Calls no function that a sanitizer
 * replaces: one looks its own up by dlsym, before anything in the process may call them.
 */
void *nvs_symbol_behind_us(const char *name);
/*
 * Calls `each` for every loaded object of the program's namespace, with the loader's lock held
 * that keeps the list as it is.
 */
void nvs_objects_visit(void (*each)(const struct nvs_object *object, void *data), void *data);
/* How many objects were ever loaded, in all namespaces. */
uint64_t nvs_objects_added(void);
/* The first definition of a function in any loaded object, the program included; NULL: none. */
void *nvs_symbol_anywhere(const char *name);
