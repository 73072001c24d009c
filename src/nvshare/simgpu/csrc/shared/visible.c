/* SPDX-License-Identifier: Apache-2.0 */
/* Owns nothing: reads the list of visible devices. */
#include "visible.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool names_all(const char *list)
{
	return !list || !*list || !strcmp(list, "all") || *list == '/';
}

static bool is_same(const char *name, size_t length, const char *other)
{
	return strlen(other) == length && !strncasecmp(name, other, length);
}

static bool is_named(const char *list, const char *index, const char *uuid)
{
	while (*list) {
		size_t length = strcspn(list, ",");

		if (is_same(list, length, index) || is_same(list, length, uuid))
			return true;
		list += length;
		list += *list == ',';
	}
	return false;
}

unsigned int sim_visible(const struct sim_shared *shared, const char *list,
			 unsigned int place[SIM_MAX_DEVICES])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < shared->device_count; i++) {
		char index[12], uuid[SIM_UUID_TEXT_BYTES];

		snprintf(index, sizeof(index), "%u", i);
		sim_devices_write_uuid(shared->devices[i].uuid, uuid);
		if (names_all(list) || is_named(list, index, uuid))
			place[count++] = i;
	}
	return count;
}
