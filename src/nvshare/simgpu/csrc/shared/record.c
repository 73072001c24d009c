/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends to the records of the devices. Holds no lock: record.h says how writers and readers
 * agree.
 */
#define _GNU_SOURCE
#include "record.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state.h"

#define MAGIC 0x3244524f434552ull /* "RECORD2" */

_Static_assert(sizeof(struct sim_record_entry) == 72, "the layout that record.py reads");
_Static_assert(offsetof(struct sim_record, entries) == 4096, "the layout that record.py reads");

struct sim_record *sim_record_open(const char *folder, unsigned int place)
{
	char path[SIM_PATH_BYTES + 32];
	struct sim_record *record = MAP_FAILED;
	int fd;

	snprintf(path, sizeof(path), "%s/record-%u", folder, place);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return NULL;
	(void)fchmod(fd, 0666);
	if (ftruncate(fd, sizeof(*record)) == 0)
		record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (record == MAP_FAILED)
		return NULL;
	record->capacity = SIM_RECORD_CAPACITY;
	record->magic = MAGIC;
	return record;
}

void sim_record_append(struct sim_record *record, const struct sim_record_entry *entry)
{
	uint64_t number = atomic_fetch_add(&record->next, 1);
	struct sim_record_entry *place = &record->entries[number % SIM_RECORD_CAPACITY];

	atomic_store(&place->sequence, 0);
	place->client = entry->client;
	place->start_ns = entry->start_ns;
	place->end_ns = entry->end_ns;
	place->bytes = entry->bytes;
	place->pid = entry->pid;
	place->kind = entry->kind;
	memcpy(place->name, entry->name, sizeof(place->name));
	atomic_store(&place->sequence, number + 1);
}
