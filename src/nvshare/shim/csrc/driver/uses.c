/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a program is linked with pass no look-up of ours: they stand in the relocations of
 * its objects, and these also say where a call leads to that was bound already. Owns how many
 * objects had been loaded at the last look. No lock: threads that look at the same time note the
 * same.
 */
#include "driver/uses.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "driver/driver.h"
#include "driver/symbols.h"
#include "process/ends.h"
#include "process/report.h"
#include "process/sleepless.h"

#define DRIVER "libcuda.so"

static _Atomic uint64_t looked_at;

/* As the driver's own are called: cuda..., cublas... and the like are others'. */
static bool has_form(const char *name)
{
	return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

void nvs_uses_named(const struct nvs_hook *hook, const void *answer)
{
	void *real = answer && nvs_report_wanted() ? nvs_hook_real(hook) : NULL;

	/* Another interposer's function leads to the hook in the end. */
	if (real)
		nvs_report_name(hook->name, NVS_ROUTE_DLSYM, answer != real && !hook->passes);
}

void nvs_uses_unhooked(const char *name)
{
	struct nvs_object driver;

	if (!has_form(name) || !nvs_object_find(DRIVER, &driver) ||
	    !nvs_object_symbol(&driver, name))
		return;
	nvs_sleepless_unknown(name);
	if (nvs_report_wanted())
		nvs_report_name(name, NVS_ROUTE_DLSYM, false);
}

void nvs_uses_asked(const char *name, const void *answer, bool replaced)
{
	/* Where the driver's symbols are redirected it may answer hooks itself. */
	const struct nvs_hook *hook = !replaced || nvs_report_wanted() ? nvs_hook_of(answer) : NULL;

	if (!name || !*name)
		return;
	if (!replaced && !hook)
		nvs_sleepless_unknown(name);
	if (hook && hook->passes)
		hook = NULL;
	if (nvs_report_wanted())
		nvs_report_name(hook ? hook->name : name, NVS_ROUTE_PROC_ADDRESS, hook != NULL);
}

void nvs_uses_table(const CUuuid *id, const void *caller)
{
	char name[NVS_REPORT_NAME_BYTES];
	struct nvs_object object;
	const char *soname = NULL;
	int length = 0;

	if (!nvs_report_wanted())
		return;
	for (size_t i = 0; i < sizeof(id->bytes); i++)
		length += snprintf(name + length, sizeof(name) - (size_t)length, "%02x",
				   (unsigned char)id->bytes[i]);
	if (nvs_object_of(caller, &object))
		soname = object.soname;
	if (soname)
		snprintf(name + length, sizeof(name) - (size_t)length, " %s", soname);
	nvs_report_name(name, NVS_ROUTE_TABLE, false);
}

/* A function of the driver that the object takes from elsewhere by a relocation; NULL: none. */
static const char *find_needed(const struct nvs_object *driver, const struct nvs_object *object,
			       const nvs_elf_relocation *relocation)
{
	const nvs_elf_symbol *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
	const char *name = object->strings + symbol->st_name;

	return ELF64_R_SYM(relocation->r_info) && symbol->st_shndx == SHN_UNDEF && has_form(name) &&
			       nvs_object_symbol(driver, name)
		       ? name
		       : NULL;
}

static void note(const struct nvs_object *driver, const struct nvs_object *object,
		 const nvs_elf_relocation *relocations, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void *const *place = (void *const *)(object->base + relocations[i].r_offset);
		const char *name = find_needed(driver, object, &relocations[i]);
		const struct nvs_hook *hook;

		if (!name)
			continue;
		/* A call that was not made yet leads back into its object: it is bound to the hook.
		 */
		hook = nvs_hook_named(name);
		nvs_report_name(name, NVS_ROUTE_LINKED,
				hook && !hook->passes && !nvs_hook_at(*place));
	}
}

static void look_at(const struct nvs_object *object, void *data)
{
	const struct nvs_object *driver = data;

	if (object->base == driver->base)
		return;
	note(driver, object, object->calls, object->calls_count);
	if (object->relocations)
		note(driver, object, object->relocations + object->relative_count,
		     object->relocations_count - object->relative_count);
}

static void find_unknown(const struct nvs_object *driver, const struct nvs_object *object,
			 const nvs_elf_relocation *relocations, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *name = find_needed(driver, object, &relocations[i]);

		if (name && !nvs_hook_named(name))
			nvs_sleepless_unknown(name);
	}
}

static void look_for_unknown(const struct nvs_object *object, void *data)
{
	const struct nvs_object *driver = data;

	if (object->base == driver->base || !nvs_object_needs(object, DRIVER ".1"))
		return;
	find_unknown(driver, object, object->calls, object->calls_count);
	if (object->relocations)
		find_unknown(driver, object, object->relocations + object->relative_count,
			     object->relocations_count - object->relative_count);
}

void nvs_uses_linked(void)
{
	struct nvs_object driver;
	NVS_KEEP_ERRNO;

	if (nvs_object_find(DRIVER, &driver))
		nvs_objects_visit(look_for_unknown, &driver);
}

void nvs_uses_look(void)
{
	struct nvs_object driver;
	NVS_KEEP_ERRNO;
	uint64_t added;

	if (!nvs_report_wanted())
		return;
	added = nvs_objects_added();
	if (atomic_load(&looked_at) != added && nvs_object_find(DRIVER, &driver)) {
		atomic_store(&looked_at, added);
		/* Outside of the visit, in which the loader's list is held. */
		nvs_driver_load();
		nvs_report();
		nvs_objects_visit(look_at, &driver);
	}
}
