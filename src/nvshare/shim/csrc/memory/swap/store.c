/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the files of arenas, the checksums, and the threads that write and read. No lock: a store is
 * its client's; from the start of its threads until the last one says that they have ended it is
 * theirs, but for `cancelled`. files.c keeps fork away while the file is taken or closed.
 *
 * The file has only the granules with contents, one behind the other. It is open for direct access
 * where the file system has that, so nothing of it is in the page cache. The door is closed, so
 * nothing of the process changes what is written.
 */
#define _GNU_SOURCE
#include "memory/swap/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/device.h"
#include "memory/swap/arena.h"
#include "memory/swap/chunk.h"
#include "memory/swap/pieces.h"
#include "memory/swap/sum.h"
#include "process/ends.h"
#include "process/thread.h"

#define THREADS 4 /* each has a granule on its way: disks want several at once */

/* Beside the numbers of errno. */
enum failure {
	NO_FAILURE = 0,
	FILE_ENDS = -1,
	WRONG_SUM = -2,
	NO_FILE = -3, /* the program has closed it */
};

struct store {
	_Atomic int stage; /* enum nvs_store_stage; of its client */
	struct nvs_device *device;
	struct nvs_file file;
	char **places; /* of the granules that the file has */
	uint64_t *sums;
	uint32_t count;
	uint64_t given; /* bytes, of all that the arena had */
	uint64_t key[NVS_SUM_KEYS];
	/* Of what goes on. */
	_Atomic uint32_t next, running;
	_Atomic int failure;	/* the first */
	_Atomic bool cancelled; /* what is written need not be */
	_Atomic int end; /* enum nvs_store_end; of the last thread, until the client hears it */
};

static struct store stores[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
						 1] = { .file = { .number = -1 } } };

static struct store *store_of(const struct nvs_device *device)
{
	return &stores[device->ordinal];
}

enum nvs_store_stage nvs_store_stage(const struct nvs_device *device)
{
	return (enum nvs_store_stage)atomic_load(&store_of(device)->stage);
}

bool nvs_stores_hold(void)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (nvs_store_stage(device) != NVS_STORE_MEMORY)
			return true;
	return false;
}

/* The threads */

static void fail(struct store *store, int failure)
{
	int none = NO_FAILURE;

	atomic_compare_exchange_strong(&store->failure, &none, failure);
}

static bool is_reading(const struct store *store)
{
	return atomic_load(&store->stage) == NVS_STORE_READING;
}

/* A program that closes all files may put its own in the place of this one. */
static int transfer(const struct store *store, uint32_t index)
{
	off_t offset = (off_t)index * NVS_GRANULE_BYTES;
	ssize_t went;

	for (size_t done = 0; done < NVS_GRANULE_BYTES; done += went > 0 ? (size_t)went : 0) {
		char *place = store->places[index] + done;
		size_t left = NVS_GRANULE_BYTES - done;
		int number = nvs_file_number(&store->file);

		if (number < 0)
			return NO_FILE;
		went = is_reading(store) ? pread(number, place, left, offset + (off_t)done)
					 : pwrite(number, place, left, offset + (off_t)done);
		if (went < 0 && errno != EINTR)
			return errno;
		if (!went)
			return FILE_ENDS;
	}
	return NO_FAILURE;
}

static uint64_t sum_of(const struct store *store, uint32_t index)
{
	return nvs_sum(store->key, index, store->places[index], NVS_GRANULE_BYTES);
}

static void move_one(struct store *store, uint32_t index)
{
	int failure;

	if (!is_reading(store))
		store->sums[index] = sum_of(store, index);
	failure = transfer(store, index);
	if (failure == NO_FAILURE && is_reading(store) &&
	    store->sums[index] != sum_of(store, index))
		failure = WRONG_SUM;
	if (failure != NO_FAILURE)
		fail(store, failure);
}

/*
 * The disk may take its time for the end of a file, so it is not closed with the lock held, for
 * which clients wait: a child that is forked meanwhile may keep an empty one.
 */
static void end_file(struct store *store)
{
	struct nvs_file file = store->file;
	int number = nvs_file_number(&file);

	if (number >= 0)
		(void)!ftruncate(number, 0);
	nvs_files_lock();
	store->file = NVS_NO_FILE;
	nvs_files_unlock();
	number = nvs_file_number(&file);
	if (number >= 0)
		close(number);
}

/*
 * Where there is no direct access, what the disk has no room for, or can't write, may turn out only
 * now, and the page cache has what memory was to be freed of.
 */
static enum nvs_store_end finish_writing(struct store *store)
{
	int number = nvs_file_number(&store->file);

	if (atomic_load(&store->cancelled))
		fail(store, ECANCELED);
	else if (number < 0)
		fail(store, NO_FILE);
	else if (fdatasync(number))
		fail(store, errno);
	if (atomic_load(&store->failure) != NO_FAILURE) {
		end_file(store);
		return NVS_STORE_NOT_STORED;
	}
	posix_fadvise(number, 0, 0, POSIX_FADV_DONTNEED);
	nvs_arena_let_go(store->device);
	return NVS_STORE_STORED;
}

static enum nvs_store_end finish_reading(struct store *store)
{
	end_file(store);
	return atomic_load(&store->failure) == NO_FAILURE ? NVS_STORE_LOADED : NVS_STORE_LOST;
}

/* The last of those who are at work. */
static void finish(struct store *store)
{
	atomic_store(&store->end,
		     is_reading(store) ? finish_reading(store) : finish_writing(store));
	NVS_EACH_DEVICE(device, UINT64_MAX)
		nvs_device_tell(device, NVS_NEWS_STORE);
}

static void stop_one(struct store *store)
{
	if (atomic_fetch_sub(&store->running, 1) == 1)
		finish(store);
}

static void *run(void *argument)
{
	struct store *store = argument;
	uint32_t index;

	while (atomic_load(&store->failure) == NO_FAILURE && !atomic_load(&store->cancelled) &&
	       (index = atomic_fetch_add(&store->next, 1)) < store->count)
		move_one(store, index);
	stop_one(store);
	return NULL;
}

/* Without any thread it is done in this call: late is better than never. */
static void start(struct store *store, enum nvs_store_stage stage)
{
	bool created = true;

	atomic_store(&store->cancelled, false);
	atomic_store(&store->next, 0);
	atomic_store(&store->running, 1);
	atomic_store(&store->stage, stage);
	for (int i = 0; i < THREADS && created; i++) {
		atomic_fetch_add(&store->running, 1);
		created = nvs_thread_create(run, store);
		if (!created)
			atomic_fetch_sub(&store->running, 1);
	}
	if (created)
		stop_one(store);
	else
		run(store);
}

/* The client */

static void forget(struct store *store)
{
	free(store->places);
	free(store->sums);
	store->places = NULL;
	store->sums = NULL;
	store->given = 0;
	atomic_store(&store->failure, NO_FAILURE);
}

static bool prepare(struct store *store)
{
	if (!nvs_arena_contents(store->device, &store->places, &store->count))
		return false;
	store->sums = malloc((store->count + 1) * sizeof(*store->sums));
	if (store->sums &&
	    syscall(SYS_getrandom, store->key, sizeof(store->key), 0) == sizeof(store->key))
		return true;
	forget(store);
	return false;
}

static bool is_empty_file(const struct nvs_file *file)
{
	int number = nvs_file_number(file);
	struct stat status;

	return number >= 0 && !fstat(number, &status) && S_ISREG(status.st_mode) && !status.st_size;
}

bool nvs_store_begin(struct nvs_device *device, struct nvs_file *file, const char **why)
{
	struct store *store = store_of(device);

	store->device = device;
	if (!is_empty_file(file))
		return false;
	*why = NULL;
	if (nvs_pieces_known(device))
		*why = "the driver has its host memory registered";
	else if (!nvs_arena_bytes(device))
		*why = "it has no host memory";
	else if (!prepare(store))
		*why = "there is no memory to note what is in the file";
	if (*why)
		return true;
	nvs_files_lock();
	store->file = *file;
	*file = NVS_NO_FILE;
	nvs_files_unlock();
	start(store, NVS_STORE_WRITING);
	return true;
}

void nvs_store_cancel(const struct nvs_device *device)
{
	struct store *store = store_of(device);

	if (!is_reading(store))
		atomic_store(&store->cancelled, true);
}

bool nvs_store_give(struct nvs_device *device, int descriptor, uint64_t bytes)
{
	struct store *store = store_of(device);
	uint64_t all = nvs_arena_bytes(device);

	if (!nvs_arena_is_segment(descriptor, bytes) || bytes > all - store->given)
		return false;
	if (!nvs_arena_put_back(device, store->given, descriptor, bytes))
		fail(store, ENOMEM);
	store->given += bytes;
	if (store->given == all)
		start(store, NVS_STORE_READING);
	return true;
}

void nvs_store_let_go(struct nvs_device *device)
{
	struct store *store = store_of(device);

	if (nvs_store_stage(device) != NVS_STORE_FILE || !store->given)
		return;
	nvs_arena_let_go(device);
	store->given = 0;
	atomic_store(&store->failure, NO_FAILURE);
}

static void explain(const struct store *store, char *why, size_t size)
{
	int failure = atomic_load(&store->failure);
	NVS_KEEP_ERRNO;

	errno = failure;
	if (failure == FILE_ENDS)
		snprintf(why, size, "it ends too early");
	else if (failure == WRONG_SUM)
		snprintf(why, size, "it has other contents than were written");
	else if (failure == NO_FILE)
		snprintf(why, size, "this program closed it");
	else
		snprintf(why, size, "%m");
}

enum nvs_store_end nvs_store_ended(struct nvs_device *device, char *why, size_t size)
{
	struct store *store = store_of(device);
	enum nvs_store_end end = (enum nvs_store_end)atomic_exchange(&store->end, NVS_STORE_NO_END);

	if (end == NVS_STORE_STORED) {
		atomic_store(&store->stage, NVS_STORE_FILE);
	} else if (end != NVS_STORE_NO_END) {
		explain(store, why, size);
		forget(store);
		atomic_store(&store->stage, NVS_STORE_MEMORY);
	}
	return end;
}

void nvs_stores_forked(void)
{
	for (struct store *store = stores; store < stores + NVS_MAX_DEVICES; store++) {
		nvs_file_close(&store->file);
		*store = (struct store){ .file = NVS_NO_FILE };
	}
}
