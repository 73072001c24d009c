/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the drivers in memory. The loader shows an object only the namespace that it is in itself;
 * the kernel shows all that is mapped. No state, no lock, and nothing of the program's allocator,
 * which may be what called dlsym.
 */
#define _GNU_SOURCE
#include "driver/apart.h"

#include <fcntl.h>
#include <unistd.h>

#include "driver/symbols.h"

#define NAME "libcuda.so"
#define NAME_BYTES (sizeof(NAME) - 1)
#define OTHER (NAME_BYTES + 1)

/* A line of /proc/self/maps, "START-END r-xp OFFSET DEVICE INODE PATH", as far as it was read. */
struct line {
	unsigned int rights; /* characters from the first space on */
	bool code;
	size_t matched; /* characters of NAME in the path's last part; OTHER: it begins otherwise */
};

/* An object's code is mapped once. True: a line has ended that is a driver's code. */
static bool read_character(struct line *line, char character)
{
	bool found = character == '\n' && line->code && line->matched == NAME_BYTES;

	if (character == '\n')
		*line = (struct line){ .matched = OTHER };
	else if (character == '/')
		line->matched = 0;
	else if (line->matched < NAME_BYTES)
		line->matched = character == NAME[line->matched] ? line->matched + 1 : OTHER;
	if (line->rights || character == ' ')
		line->rights++;
	if (line->rights == 4)
		line->code = character == 'x';
	return found;
}

static unsigned int count_mapped(void)
{
	struct line line = { .matched = OTHER };
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	unsigned int found = 0;
	char part[1024];
	ssize_t length;

	if (file < 0)
		return 0;
	while ((length = read(file, part, sizeof(part))) > 0)
		for (ssize_t i = 0; i < length; i++)
			found += read_character(&line, part[i]);
	close(file);
	return found;
}

bool nvs_driver_is_elsewhere(void)
{
	struct nvs_object driver;

	return count_mapped() > (nvs_object_find(NAME, &driver) ? 1 : 0);
}
