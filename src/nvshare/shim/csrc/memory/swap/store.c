/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the files of arenas, the checksums, and the threads that write and read. A store is its
 * client's, and its threads' as long as some are at work; what both change is under its lock. It is
 * not held while anything is written or read. files.c keeps fork away while the file is taken or
 * closed.
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
#include "memory/swap/transfer.h"
#include "process/ends.h"
#include "process/mutex.h"
#include "process/thread.h"

#define THREADS 4 /* each has a granule on its way: disks want several at once */

struct store {
	_Atomic int stage; /* enum nvs_store_stage; of its client */
	struct nvs_device *device;
	struct nvs_file file;
	struct nvs_content *contents; /* the granules that the file has */
	uint64_t *sums;
	uint32_t count;
	uint64_t given; /* bytes, of all that the arena had */
	uint64_t key[NVS_SUM_KEYS];
	_Atomic int end; /* enum nvs_store_end; of the last thread, until the client hears it */

	struct nvs_mutex lock;
	/* Of the granules, or of the segments that are let go: those before `ready` can be. */
	uint32_t next, ready;
	uint32_t running; /* threads that are at work */
	int failure;	  /* the first */
	bool cancelled;	  /* what was begun is to end */
};

#define NEW_STORE { .file = { .number = -1 }, .lock = NVS_MUTEX(NVS_ORDER_STORE) }

static struct store stores[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES - 1] = NEW_STORE };

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
	NVS_HOLD(&store->lock);

	if (store->failure == NVS_TRANSFERRED)
		store->failure = failure;
}

static bool is_writing(const struct store *store)
{
	return atomic_load(&store->stage) == NVS_STORE_WRITING;
}

static uint64_t sum_of(const struct store *store, uint32_t index)
{
	return nvs_sum(store->key, index, store->contents[index].place, NVS_GRANULE_BYTES);
}

static void move_one(struct store *store, uint32_t index)
{
	int failure;

	if (is_writing(store))
		store->sums[index] = sum_of(store, index);
	failure =
		nvs_transfer(&store->file, is_writing(store), store->contents[index].place, index);
	if (failure == NVS_TRANSFERRED && !is_writing(store) &&
	    store->sums[index] != sum_of(store, index))
		failure = NVS_TRANSFER_WRONG_SUM;
	if (failure != NVS_TRANSFERRED)
		fail(store, failure);
}

/* False: there is nothing, and the caller is at work no more. */
static bool take(struct store *store, uint32_t *index, bool *last)
{
	NVS_HOLD(&store->lock);

	*last = false;
	if (store->failure == NVS_TRANSFERRED && !store->cancelled && store->next < store->ready) {
		*index = store->next++;
		return true;
	}
	store->running--;
	*last = !store->running && atomic_load(&store->stage) != NVS_STORE_FILE;
	nvs_mutex_changed(&store->lock);
	return false;
}

static void finish(struct store *store);

static void *run(void *argument)
{
	struct store *store = argument;
	uint32_t index;
	bool last;

	while (take(store, &index, &last))
		if (nvs_store_stage(store->device) == NVS_STORE_FREEING)
			nvs_arena_let_go(store->device, index);
		else
			move_one(store, index);
	if (last)
		finish(store);
	return NULL;
}

/*
 * With the lock held: so many can be moved or let go, and more follow in stage FILE only. How many
 * threads have to be created for that.
 */
static uint32_t prepare_threads(struct store *store, enum nvs_store_stage stage, uint32_t ready)
{
	uint32_t more = THREADS - store->running;

	store->ready = ready;
	atomic_store(&store->stage, stage);
	store->running = THREADS;
	return more;
}

/* Without any thread it is done in this call: late is better than never. */
static void create_threads(struct store *store, uint32_t more)
{
	while (more && nvs_thread_create(run, store))
		more--;
	if (!more)
		return;
	nvs_mutex_lock(&store->lock);
	store->running -= more - 1;
	nvs_mutex_unlock(&store->lock);
	run(store);
}

/*
 * Where there is no direct access, what the disk has no room for, or can't write, may turn out only
 * now, and the page cache has what memory was to be freed of.
 */
static void synchronize(struct store *store)
{
	int number = nvs_file_number(&store->file);

	if (number < 0)
		fail(store, NVS_TRANSFER_NO_FILE);
	else if (fdatasync(number))
		fail(store, errno);
	else
		posix_fadvise(number, 0, 0, POSIX_FADV_DONTNEED);
}

/* From here on it can't be cancelled any more. False: it was, or has failed. */
static bool begin_freeing(struct store *store, uint32_t *threads)
{
	uint32_t segments = nvs_arena_segments(store->device);

	synchronize(store);
	NVS_HOLD(&store->lock);
	if (store->failure == NVS_TRANSFERRED && store->cancelled)
		store->failure = ECANCELED;
	if (store->failure != NVS_TRANSFERRED)
		return false;
	store->next = 0;
	*threads = prepare_threads(store, NVS_STORE_FREEING, segments);
	return true;
}

static void tell(struct store *store, enum nvs_store_end end)
{
	atomic_store(&store->end, end);
	NVS_EACH_DEVICE(device, UINT64_MAX)
		nvs_device_tell(device, NVS_NEWS_STORE);
}

/*
 * The disk may take its time for the end of a file, so nobody waits for it. A child that is forked
 * meanwhile may keep an empty one.
 */
static void tell_and_end_file(struct store *store, enum nvs_store_end end)
{
	struct nvs_file file = store->file;
	int number;

	nvs_files_lock();
	store->file = NVS_NO_FILE;
	nvs_files_unlock();
	tell(store, end);
	number = nvs_file_number(&file);
	if (number < 0)
		return;
	(void)!ftruncate(number, 0);
	close(number);
}

/* The last of those who were at work, once there is nothing more to come. */
static void finish(struct store *store)
{
	enum nvs_store_stage stage = nvs_store_stage(store->device);
	uint32_t threads;

	if (stage == NVS_STORE_FREEING)
		tell(store, NVS_STORE_STORED);
	else if (stage == NVS_STORE_READING)
		tell_and_end_file(store, store->failure == NVS_TRANSFERRED ? NVS_STORE_LOADED
									   : NVS_STORE_LOST);
	else if (begin_freeing(store, &threads))
		create_threads(store, threads);
	else
		tell_and_end_file(store, NVS_STORE_NOT_STORED);
}

/* The client */

static void forget(struct store *store)
{
	free(store->contents);
	free(store->sums);
	store->contents = NULL;
	store->sums = NULL;
}

/* With the lock held: from the first granule on. */
static void begin_anew(struct store *store)
{
	store->given = 0;
	store->next = store->ready = 0;
	store->failure = NVS_TRANSFERRED;
	store->cancelled = false;
}

static bool prepare(struct store *store)
{
	if (!nvs_arena_contents(store->device, &store->contents, &store->count))
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
	uint32_t threads;

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
	nvs_mutex_lock(&store->lock);
	begin_anew(store);
	threads = prepare_threads(store, NVS_STORE_WRITING, store->count);
	nvs_mutex_unlock(&store->lock);
	create_threads(store, threads);
	return true;
}

void nvs_store_cancel(const struct nvs_device *device)
{
	struct store *store = store_of(device);
	NVS_HOLD(&store->lock);

	if (is_writing(store))
		store->cancelled = true;
}

/* How many of the granules are in so much of the arena. */
static uint32_t contents_in(const struct store *store, uint64_t bytes)
{
	uint32_t ready = store->ready;

	while (ready < store->count && store->contents[ready].end <= bytes)
		ready++;
	return ready;
}

bool nvs_store_give(struct nvs_device *device, int descriptor, uint64_t bytes)
{
	struct store *store = store_of(device);
	uint64_t all = nvs_arena_bytes(device);
	uint32_t ready, threads = 0;

	if (!nvs_arena_is_segment(descriptor, bytes) || bytes > all - store->given)
		return false;
	if (!nvs_arena_put_back(device, store->given, descriptor, bytes))
		fail(store, ENOMEM);
	store->given += bytes;
	ready = contents_in(store, store->given);
	nvs_mutex_lock(&store->lock);
	if (store->given == all)
		threads = prepare_threads(store, NVS_STORE_READING, ready);
	else if (ready > store->ready)
		threads = prepare_threads(store, NVS_STORE_FILE, ready);
	nvs_mutex_unlock(&store->lock);
	create_threads(store, threads);
	return true;
}

void nvs_store_let_go(struct nvs_device *device)
{
	struct store *store = store_of(device);

	if (nvs_store_stage(device) != NVS_STORE_FILE || !store->given)
		return;
	nvs_mutex_lock(&store->lock);
	store->cancelled = true;
	while (store->running)
		nvs_mutex_wait(&store->lock);
	begin_anew(store);
	nvs_mutex_unlock(&store->lock);
	for (uint32_t i = 0; i < nvs_arena_segments(device); i++)
		nvs_arena_let_go(device, i);
}

enum nvs_store_end nvs_store_ended(struct nvs_device *device, char *why, size_t size)
{
	struct store *store = store_of(device);
	enum nvs_store_end end = (enum nvs_store_end)atomic_exchange(&store->end, NVS_STORE_NO_END);

	if (end == NVS_STORE_NO_END)
		return end;
	if (end != NVS_STORE_STORED) {
		nvs_transfer_explain(store->failure, why, size);
		forget(store);
	}
	nvs_mutex_lock(&store->lock);
	begin_anew(store);
	nvs_mutex_unlock(&store->lock);
	atomic_store(&store->stage, end == NVS_STORE_STORED ? NVS_STORE_FILE : NVS_STORE_MEMORY);
	return end;
}

void nvs_stores_forked(void)
{
	for (struct store *store = stores; store < stores + NVS_MAX_DEVICES; store++) {
		nvs_file_close(&store->file);
		*store = (struct store)NEW_STORE;
	}
}
