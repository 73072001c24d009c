/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the report's file and its mapping. No lock: the mapping is published once, names are claimed
 * one by one, numbers are added to. A child that was forked, with the library's knowledge or
 * without, sees by the pid that the mapping is its parent's, and makes its own.
 */
#define _GNU_SOURCE
#include "process/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "process/config.h"
#include "process/ends.h"
#include "process/thread.h"

#define REPORT "NVSHARE_REPORT"
#define ATTEMPTS 16 /* a pid may execute one program after another */

enum wanted {
	UNKNOWN = 0,
	NOT_WANTED = 1,
	WANTED = 2
};

static _Atomic int wanted;
static _Atomic(struct nvs_report *) mine;
static _Atomic bool failed;

bool nvs_report_wanted(void)
{
	int known = atomic_load_explicit(&wanted, memory_order_relaxed);

	if (known == UNKNOWN) {
		known = nvs_variable(REPORT) ? WANTED : NOT_WANTED;
		atomic_store_explicit(&wanted, known, memory_order_relaxed);
	}
	return known == WANTED;
}

/* A signal would end the process that writes beyond this limit. */
static bool may_be_so_long(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= sizeof(struct nvs_report);
}

/* All of it has its place on the disk: a full one would end the process at a write. */
static struct nvs_report *map_file(int file)
{
	void *mapped;

	if (posix_fallocate(file, 0, sizeof(struct nvs_report)))
		return NULL;
	mapped = mmap(NULL, sizeof(struct nvs_report), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	return mapped == MAP_FAILED ? NULL : mapped;
}

static void read_command(char *command)
{
	int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t length = 0;

	if (file >= 0) {
		length = read(file, command, NVS_REPORT_COMMAND_BYTES - 1);
		close(file);
	}
	for (ssize_t i = 0; i + 1 < length; i++)
		if (!command[i])
			command[i] = ' ';
}

static struct nvs_report *make(const char *folder, pid_t pid)
{
	struct nvs_report *report = NULL;
	char path[PATH_MAX];
	int file = -1;

	for (int i = 0; file < 0 && i < ATTEMPTS; i++) {
		snprintf(path, sizeof(path), "%s/%d.%d", folder, (int)pid, i);
		file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (file < 0 && errno != EEXIST)
			return NULL;
	}
	if (file < 0)
		return NULL;
	report = map_file(file);
	close(file);
	if (!report) {
		unlink(path);
		return NULL;
	}
	read_command(report->command);
	report->pid = (uint32_t)pid;
	/* Last: what has this is a report. */
	__atomic_store_n(&report->magic, NVS_REPORT_MAGIC, __ATOMIC_RELEASE);
	return report;
}

/* Of two threads that make one at the same time both files stay, and both are read. */
static struct nvs_report *begin(struct nvs_report *before, pid_t pid)
{
	const char *folder = nvs_variable(REPORT);
	struct nvs_report *report;

	nvs_cancel_off();
	report = folder && may_be_so_long() ? make(folder, pid) : NULL;
	nvs_cancel_on();
	if (!report)
		atomic_store(&failed, true);
	else if (!atomic_compare_exchange_strong(&mine, &before, report))
		report = before;
	return report;
}

struct nvs_report *nvs_report(void)
{
	struct nvs_report *report;
	NVS_KEEP_ERRNO;
	pid_t pid;

	if (!nvs_report_wanted() || atomic_load_explicit(&failed, memory_order_relaxed))
		return NULL;
	report = atomic_load_explicit(&mine, memory_order_acquire);
	pid = getpid();
	if (!report || report->pid != (uint32_t)pid)
		report = begin(report, pid);
	return report;
}

struct nvs_report_device *nvs_report_device(int ordinal)
{
	struct nvs_report *report = nvs_report();

	return report && ordinal >= 0 && ordinal < NVS_REPORT_DEVICES ? &report->devices[ordinal]
								      : NULL;
}

static uint32_t digest(const char *name)
{
	uint32_t hash = 5381;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	return hash;
}

/* The entry of a name; NULL: there is no room. A name that another thread writes gets another. */
static struct nvs_report_name *entry_of(struct nvs_report *report, const char *name)
{
	uint32_t at = digest(name);

	for (uint32_t i = 0; i < NVS_REPORT_NAMES; i++, at++) {
		struct nvs_report_name *entry = &report->names[at & (NVS_REPORT_NAMES - 1)];
		uint32_t state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);

		if (state == NVS_REPORT_NAME_READY &&
		    !strncmp(entry->name, name, sizeof(entry->name) - 1))
			return entry;
		if (state != NVS_REPORT_NAME_FREE ||
		    !__atomic_compare_exchange_n(&entry->state, &state, NVS_REPORT_NAME_BEGUN,
						 false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		strncpy(entry->name, name, sizeof(entry->name) - 1);
		__atomic_store_n(&entry->state, NVS_REPORT_NAME_READY, __ATOMIC_RELEASE);
		return entry;
	}
	return NULL;
}

void nvs_report_name(const char *name, enum nvs_report_route route, bool hooked)
{
	struct nvs_report *report = nvs_report();
	struct nvs_report_name *entry = report ? entry_of(report, name) : NULL;

	if (entry)
		__atomic_fetch_or(hooked ? &entry->hooked : &entry->driver, (uint32_t)route,
				  __ATOMIC_RELAXED);
	else if (report)
		__atomic_fetch_add(&report->lost, 1, __ATOMIC_RELAXED);
}

static void raise_to(uint64_t *most, uint64_t now)
{
	uint64_t before = __atomic_load_n(most, __ATOMIC_RELAXED);

	while (before < now && !__atomic_compare_exchange_n(most, &before, now, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void nvs_report_bytes(int ordinal, enum nvs_report_bytes kind, int64_t change)
{
	struct nvs_report_device *device = nvs_report_device(ordinal);

	if (device)
		raise_to(&device->bytes_most[kind],
			 __atomic_add_fetch(&device->bytes[kind], (uint64_t)change,
					    __ATOMIC_RELAXED));
}

void nvs_report_sums(int ordinal, uint64_t movable, uint64_t fixed)
{
	struct nvs_report_device *device = nvs_report_device(ordinal);

	if (!device)
		return;
	__atomic_store_n(&device->movable, movable, __ATOMIC_RELAXED);
	__atomic_store_n(&device->fixed, fixed, __ATOMIC_RELAXED);
	raise_to(&device->movable_most, movable);
	raise_to(&device->fixed_most, fixed);
}
