/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with the management library and its devices, and which are in MIG mode, as somebody
 * says it while programs run, in the file `nvml` of the state folder. Every call reads that;
 * nothing is kept.
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

static void read_text(const struct sim_state *state, char text[TEXT_BYTES])
{
	char path[SIM_PATH_BYTES + 16];
	ssize_t length = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/nvml", state->folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, text, TEXT_BYTES - 1);
		close(fd);
	}
	text[length > 0 ? length : 0] = '\0';
}

static struct sickness look(const struct sim_state *state)
{
	struct sickness found = { .error = NVML_SUCCESS };
	char text[TEXT_BYTES], *rest = NULL;

	read_text(state, text);
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

int nvml_mig_devices(const struct sim_state *state, int index,
		     char profiles[NVML_MIG_DEVICES][NVML_PROFILE_BYTES])
{
	char text[TEXT_BYTES], *rest = NULL, *words = NULL;
	int count = -1;

	read_text(state, text);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "mig ", 4) || !(place_bit(line + 4) >> state->place[index] & 1))
			continue;
		strtok_r(line + 4, " ", &words);
		for (count = 0; count < NVML_MIG_DEVICES; count++) {
			const char *profile = strtok_r(NULL, " ", &words);

			if (!profile)
				break;
			snprintf(profiles[count], NVML_PROFILE_BYTES, "%s", profile);
		}
	}
	return count;
}
