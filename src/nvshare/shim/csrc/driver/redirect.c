/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes where the loader has only readable memory, through /proc/self/mem: it makes the process a
 * copy of the page and leaves the page's protection as it is. mprotect would leave a moment in
 * which another thread, or the loader at work on the same page, finds it otherwise; and a system
 * with SELinux refuses it for a page that is also code, as in objects of older linkers.
 *
 * No state, no lock: threads that write the same place at the same time write the same. The file is
 * open for microseconds; whoever forks just then gets a file that exec closes.
 */
#define _GNU_SOURCE
#include "driver/redirect.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include "driver/symbols.h"

#if defined(__x86_64__)
#define CALL_OF R_X86_64_JUMP_SLOT
#define ADDRESS_OF R_X86_64_GLOB_DAT
#define POINTER_TO R_X86_64_64
#elif defined(__aarch64__)
#define CALL_OF R_AARCH64_JUMP_SLOT
#define ADDRESS_OF R_AARCH64_GLOB_DAT
#define POINTER_TO R_AARCH64_ABS64
#endif

int nvs_redirect_begin(void)
{
	return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
}

void nvs_redirect_end(const int *memory)
{
	if (*memory >= 0)
		close(*memory);
}

static bool write_word(int memory, const void *place, uintptr_t word)
{
	return pwrite(memory, &word, sizeof(word), (off_t)(uintptr_t)place) == sizeof(word);
}

bool nvs_redirect_symbol(int memory, const struct nvs_object *object, const char *name,
			 const void *to)
{
	const nvs_elf_symbol *symbol = NULL;

	while ((symbol = nvs_object_entry(object, name, symbol)))
		if (!write_word(memory, &symbol->st_value, (uintptr_t)to - object->base))
			return false;
	return true;
}

struct notes {
	int memory;
	bool failed;
	const struct nvs_object *but;
	void *(*instead)(const void *noted);
};

static void redirect_notes(struct notes *notes, const struct nvs_object *object,
			   const nvs_elf_relocation *relocations, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void **place = (void **)(object->base + relocations[i].r_offset), *to;
		ElfW(Xword) type = ELF64_R_TYPE(relocations[i].r_info);

		if (type != CALL_OF && type != ADDRESS_OF && type != POINTER_TO)
			continue;
		to = notes->instead(*place);
		if (to && !write_word(notes->memory, place, (uintptr_t)to))
			notes->failed = true;
	}
}

static void redirect_object(const struct nvs_object *object, void *data)
{
	struct notes *notes = data;

	if (object->base == notes->but->base)
		return;
	redirect_notes(notes, object, object->calls, object->calls_count);
	if (object->relocations)
		redirect_notes(notes, object, object->relocations + object->relative_count,
			       object->relocations_count - object->relative_count);
}

bool nvs_redirect_notes(int memory, const struct nvs_object *but,
			void *(*instead)(const void *noted))
{
	struct notes notes = { .memory = memory, .but = but, .instead = instead };

	nvs_objects_visit(redirect_object, &notes);
	return !notes.failed;
}
