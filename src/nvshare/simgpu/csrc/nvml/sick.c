/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with the management library and its devices, as somebody says it while programs
 * run, in the file `nvml` of the state folder. Every call reads that; nothing is kept.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"

#define TEXT_BYTES 2048
#define LOOK_EVERY_MS 20u

struct sickness {
	bool hangs;
	nvmlReturn_t error;
	uint64_t lost;	    /* bit mask of places */
	uint64_t no_memory; /* the same */
};

static uint64_t place_bit(const char *number)
{
	unsigned long place = strtoul(number, NULL, 10);

	return place < 64 ? 1ull << place : 0;
}

static void read_line(const char *line, struct sickness *found)
{
	if (!strcmp(line, "hang"))
		found->hangs = true;
	else if (!strncmp(line, "error ", 6))
		found->error = (nvmlReturn_t)strtol(line + 6, NULL, 10);
	else if (!strncmp(line, "lost ", 5))
		found->lost |= place_bit(line + 5);
	else if (!strncmp(line, "no-memory ", 10))
		found->no_memory |= place_bit(line + 10);
}

static struct sickness look(const struct sim_state *state)
{
	struct sickness found = { .error = NVML_SUCCESS };
	char path[SIM_PATH_BYTES + 16], text[TEXT_BYTES], *rest = NULL;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/nvml", state->folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return found;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		read_line(line, &found);
	return found;
}

nvmlReturn_t nvml_trouble(const struct sim_state *state)
{
	const struct timespec pause = { .tv_nsec = LOOK_EVERY_MS * 1000000l };
	struct sickness found = look(state);

	while (found.hangs) {
		nanosleep(&pause, NULL);
		found = look(state);
	}
	return found.error;
}

bool nvml_is_lost(const struct sim_state *state, int index)
{
	return look(state).lost >> state->place[index] & 1;
}

bool nvml_has_memory(const struct sim_state *state, int index)
{
	return !(look(state).no_memory >> state->place[index] & 1);
}
