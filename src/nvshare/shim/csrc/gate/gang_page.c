/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the memberships and their mapped pages. A device's lock protects which it has; what is in
 * them belongs to one thread at a time. A page that a drain goes by stays mapped until its end.
 *
 * A page that is shorter than its mapping would end the process at the first look, so only a file
 * is taken whose size is sealed. Others write to it at any time: each number is read once.
 */
#define _GNU_SOURCE
#include "gate/gang_page.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "gate/device.h"
#include "gate/marks.h"
#include "process/files.h"
#include "process/mutex.h"

#define MOST_BYTES (1u << 20)
#define WORDS (sizeof(struct nvs_gang_status) / sizeof(uint64_t))
#define LOOKS 4 /* at what is being written */

_Static_assert(sizeof(struct nvs_gang_command) == sizeof(struct nvs_gang_status),
	       "both are read alike");

static struct membership {
	struct nvs_mutex lock;
	struct nvs_gang *latest; /* NULL: none */
	struct nvs_gang *bound;	 /* of the drain that was asked for; NULL: none */
} memberships[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
				    1] = { .lock = NVS_MUTEX(NVS_ORDER_GANGS) } };

static struct membership *lock(const struct nvs_device *device)
{
	struct membership *membership = &memberships[device->ordinal];

	nvs_mutex_lock(&membership->lock);
	return membership;
}

static void unlock(struct membership *const *membership)
{
	nvs_mutex_unlock(&(*membership)->lock);
}

/* The record: its version, and the words after it. Written by one thread of one process. */
static void write_record(void *record, const void *from, uint64_t version)
{
	uint64_t *to = record, words[WORDS];

	memcpy(words, from, sizeof(words));
	__atomic_store_n(&to[0], 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (size_t i = 1; i < WORDS; i++)
		__atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
	__atomic_store_n(&to[0], version, __ATOMIC_RELEASE);
}

static bool read_record(const void *record, void *out)
{
	const uint64_t *from = record;
	uint64_t words[WORDS];

	for (int look = 0; look < LOOKS; look++) {
		words[0] = __atomic_load_n(&from[0], __ATOMIC_ACQUIRE);
		for (size_t i = 1; i < WORDS; i++)
			words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (words[0] && __atomic_load_n(&from[0], __ATOMIC_RELAXED) == words[0]) {
			memcpy(out, words, sizeof(words));
			return true;
		}
	}
	return false;
}

void nvs_gang_say(struct nvs_gang *gang)
{
	gang->status.version++;
	write_record(&gang->page->statuses[gang->slot], &gang->status, gang->status.version);
}

static uint64_t granted(const struct nvs_gang *gang, uint32_t slot)
{
	return __atomic_load_n(&gang->page->granted[slot], __ATOMIC_ACQUIRE);
}

bool nvs_gang_status(const struct nvs_gang *gang, uint32_t slot, struct nvs_gang_status *out)
{
	bool read = read_record(&gang->page->statuses[slot], out);

	/*
	 * Who must not be passed over, because it submits before it hears that it is to stop: a
	 * member of which nothing is known yet, that may not have heard of the page, and one that
	 * has the lock and may not have heard of that.
	 */
	if (!out->version || (out->returned && granted(gang, slot) >= out->returned))
		out->flags |= NVS_GANG_RUNS;
	return read;
}

bool nvs_gang_command(const struct nvs_gang *gang, uint32_t slot, struct nvs_gang_command *out)
{
	return read_record(&gang->page->commands[slot], out);
}

void nvs_gang_order(struct nvs_gang *gang, uint32_t slot, const struct nvs_gang_command *command)
{
	write_record(&gang->page->commands[slot], command, command->version);
}

uint64_t nvs_gang_present(const struct nvs_gang *gang)
{
	uint64_t all = gang->slots < 64 ? (1ULL << gang->slots) - 1 : UINT64_MAX;

	return all & ~__atomic_load_n(&gang->page->absent, __ATOMIC_ACQUIRE);
}

bool nvs_gang_has_others(const struct nvs_gang *gang)
{
	uint64_t present = nvs_gang_present(gang) & ~(1ULL << gang->slot);

	for (uint32_t slot = 0; slot < gang->slots; slot++) {
		struct nvs_gang_status status = { 0 };

		nvs_gang_status(gang, slot, &status);
		if (present >> slot & 1 && status.flags & (NVS_GANG_RUNS | NVS_GANG_IN))
			return true;
	}
	return false;
}

/* Memberships */

static void discard(struct nvs_gang *gang)
{
	if (!gang)
		return;
	munmap(gang->page, gang->page_bytes);
	free(gang);
}

/* The file's size can't change any more, and it is what was said. */
static bool sealed(int file, uint64_t bytes)
{
	struct stat status;
	int seals = fcntl(file, F_GET_SEALS);

	return bytes >= sizeof(struct nvs_gang_page) && bytes <= MOST_BYTES && seals >= 0 &&
	       seals & F_SEAL_SHRINK && !fstat(file, &status) && (uint64_t)status.st_size == bytes;
}

static struct nvs_gang *open_page(int file, uint64_t bytes)
{
	struct nvs_gang *gang = calloc(1, sizeof(*gang));

	if (gang)
		gang->page = nvs_file_map(file, bytes);
	if (!gang || !gang->page) {
		free(gang);
		return NULL;
	}
	gang->page_bytes = bytes;
	return gang;
}

/* With the lock held. */
static void replace(struct membership *membership, struct nvs_gang *gang)
{
	if (membership->latest != membership->bound)
		discard(membership->latest);
	membership->latest = gang;
}

bool nvs_gang_enter(struct nvs_device *device, int file, uint64_t page_bytes, uint32_t slot,
		    uint32_t slots)
{
	struct membership *membership;
	struct nvs_gang *gang;

	if (slots > NVS_GANG_SLOTS || slot >= slots || !sealed(file, page_bytes))
		return false;
	gang = open_page(file, page_bytes);
	if (!gang)
		return false;
	if (__atomic_load_n(&gang->page->magic, __ATOMIC_RELAXED) != NVS_GANG_MAGIC) {
		discard(gang);
		return false;
	}
	gang->slot = slot;
	gang->slots = slots;
	gang->base = nvs_marks_submissions(device);
	if (atomic_load(&device->gate.state) == NVS_GATE_OPEN)
		gang->status.flags = NVS_GANG_RUNS;
	gang->status.returned = 1;
	nvs_gang_say(gang);
	membership = lock(device);
	replace(membership, gang);
	atomic_store(&device->in_gang, true);
	unlock(&membership);
	return true;
}

void nvs_gang_leave(struct nvs_device *device)
{
	struct membership *membership NVS_ENDS(unlock) = lock(device);

	replace(membership, NULL);
	atomic_store(&device->in_gang, false);
}

void nvs_gang_runs(struct nvs_device *device)
{
	struct membership *membership NVS_ENDS(unlock) = lock(device);

	if (membership->latest && !(membership->latest->status.flags & NVS_GANG_RUNS)) {
		membership->latest->status.flags = NVS_GANG_RUNS;
		nvs_gang_say(membership->latest);
	}
}

void nvs_gang_bind(struct nvs_device *device)
{
	struct membership *membership NVS_ENDS(unlock) = lock(device);

	membership->bound = membership->latest;
}

struct nvs_gang *nvs_gang_begin(const struct nvs_device *device)
{
	struct membership *membership NVS_ENDS(unlock) = lock(device);

	return membership->bound;
}

void nvs_gang_end(struct nvs_device *device, bool completed)
{
	struct membership *membership NVS_ENDS(unlock) = lock(device);
	struct nvs_gang *gang = membership->bound;

	if (gang) {
		gang->status.flags = completed ? 0 : NVS_GANG_RUNS;
		if (completed) {
			gang->base = nvs_marks_submissions(device);
			gang->status.returned = granted(gang, gang->slot) + 1;
		}
		nvs_gang_say(gang);
	}
	if (gang != membership->latest)
		discard(gang);
	membership->bound = NULL;
}

void nvs_gangs_forked(void)
{
	for (int i = 0; i < NVS_MAX_DEVICES; i++)
		memberships[i] = (struct membership){ .lock = NVS_MUTEX(NVS_ORDER_GANGS) };
}
