/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's list of sockets, and asks it who listens at those that are claims. No state.
 * The names are those of gpu_claims.py; a test compares what the two find.
 */
#define _GNU_SOURCE
#include "client/claims.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/ends.h"
#include "process/files.h"
#include "process/thread.h"

#define SOCKETS "/proc/net/unix"
#define PREFIX "nvshare/gpu/"
#define MOST 8 /* claims that are looked at: strangers may make as many as they like */
#define NAME_BYTES 96

struct found {
	char prefix[1 + sizeof(PREFIX) + 33]; /* as the list spells it, with an @ for the NUL */
	char names[MOST][NAME_BYTES];
	size_t count;
};

static void look_at_line(struct found *found, const char *line)
{
	const char *name = strstr(line, found->prefix);

	if (name && found->count < MOST && strlen(name) <= NAME_BYTES)
		strcpy(found->names[found->count++], name + 1);
}

static void look_at_all(struct found *found, int list)
{
	char line[256], piece[512];
	size_t length = 0;
	ssize_t got;

	while ((got = read(list, piece, sizeof(piece))) > 0)
		for (ssize_t i = 0; i < got; i++)
			if (piece[i] != '\n') {
				/* No claim is longer, and what follows is of no use. */
				if (length < sizeof(line) - 1)
					line[length++] = piece[i];
			} else {
				line[length] = '\0';
				look_at_line(found, line);
				length = 0;
			}
}

bool nvs_claims_find(const uint8_t uuid[16], uint32_t but, struct nvs_peer *owner)
{
	struct found found = { .prefix = "@" PREFIX };
	size_t length = strlen(found.prefix);
	NVS_KEEP_ERRNO;
	int list;
	struct nvs_peer seen;
	bool other = false;

	for (size_t i = 0; i < 16; i++, length += 2)
		snprintf(found.prefix + length, sizeof(found.prefix) - length, "%02x", uuid[i]);
	found.prefix[length] = '/';
	/* A thread that is cancelled in a read would keep the lock. */
	nvs_cancel_off();
	nvs_files_lock();
	list = open(SOCKETS, O_RDONLY | O_CLOEXEC);
	if (list >= 0) {
		look_at_all(&found, list);
		close(list);
	}
	nvs_files_unlock();
	for (size_t i = 0; i < found.count && !other; i++)
		other = nvs_connection_peer(found.names[i], &seen) && seen.pid != but;
	nvs_cancel_on();
	if (other)
		*owner = seen;
	return other;
}
