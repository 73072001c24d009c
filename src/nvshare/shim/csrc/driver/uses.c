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
		nvs_report_name(hook->name, NVS_ROUTE_DLSYM, answer != real);
}

void nvs_uses_unhooked(const char *name)
{
	struct nvs_object driver;

	if (has_form(name) && nvs_report_wanted() && nvs_object_find(DRIVER, &driver) &&
	    nvs_object_symbol(&driver, name))
		nvs_report_name(name, NVS_ROUTE_DLSYM, false);
}

void nvs_uses_asked(const char *name, const void *answer)
{
	const char *hook = nvs_report_wanted() ? nvs_hook_name(answer) : NULL;

	if (nvs_report_wanted() && name && *name)
		nvs_report_name(hook ? hook : name, NVS_ROUTE_PROC_ADDRESS, hook != NULL);
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

static void note(const struct nvs_object *driver, const struct nvs_object *object,
		 const nvs_elf_relocation *relocations, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const nvs_elf_symbol *symbol = &object->symbols[ELF64_R_SYM(relocations[i].r_info)];
		void *const *place = (void *const *)(object->base + relocations[i].r_offset);
		const char *name = object->strings + symbol->st_name;

		if (!ELF64_R_SYM(relocations[i].r_info) || symbol->st_shndx != SHN_UNDEF ||
		    !has_form(name) || !nvs_object_symbol(driver, name))
			continue;
		/* A call that was not made yet leads back into its object: it is bound to the hook.
		 */
		nvs_report_name(name, NVS_ROUTE_LINKED,
				nvs_hook_named(name) && !nvs_hook_at(*place));
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
