/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the files of stores and the checksums.
 *
 * The file has only the granules with contents, one behind the other. It is open for direct access
 * where the file system has that, so nothing of it is in the page cache. The door is closed, so
 * nothing of the process changes what is written.
 */
#define _GNU_SOURCE
#include "memory/away/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/device.h"
#include "memory/away/arena_away.h"
#include "memory/swap/chunk.h"
#include "memory/away/store.h"
#include "memory/away/store_record.h"
#include "memory/away/transfer.h"

static uint64_t sum_of(const struct nvs_store *store, uint32_t index)
{
	return nvs_sum(store->key, index, store->contents[index].place, NVS_GRANULE_BYTES);
}

/*
 * The disk may take its time for the end of a file, so nobody waits for it. A child that is forked
 * meanwhile may keep an empty one.
 */
static void tell_and_end_file(struct nvs_store *store, enum nvs_store_end end)
{
	struct nvs_file file;
	int number;

	nvs_store_take_file(&file, &store->file);
	nvs_store_tell(store, end);
	number = nvs_file_number(&file);
	if (number < 0)
		return;
	(void)!ftruncate(number, 0);
	close(number);
}

/* Back */

static int read_one(void *owner, uint32_t index)
{
	struct nvs_store *store = owner;
	int failure = nvs_transfer(&store->file, false, store->contents[index].place, index);

	if (failure == NVS_TRANSFERRED && store->sums[index] != sum_of(store, index))
		failure = NVS_TRANSFER_WRONG_SUM;
	return failure;
}

static void finish_reading(void *owner)
{
	tell_and_end_file(owner, nvs_store_read(owner));
}

static const struct nvs_job_work reading = { read_one, finish_reading };

/* Away */

static int free_one(void *owner, uint32_t segment)
{
	nvs_arena_let_go(((struct nvs_store *)owner)->device, segment);
	return NVS_TRANSFERRED;
}

static void finish_freeing(void *owner)
{
	nvs_store_tell(owner, NVS_STORE_GONE);
}

static const struct nvs_job_work freeing = { free_one, finish_freeing };

static int write_one(void *owner, uint32_t index)
{
	struct nvs_store *store = owner;

	store->sums[index] = sum_of(store, index);
	return nvs_transfer(&store->file, true, store->contents[index].place, index);
}

/*
 * Where there is no direct access, what the disk has no room for, or can't write, may turn out only
 * now, and the page cache has what memory was to be freed of.
 */
static void synchronize(struct nvs_store *store)
{
	int number = nvs_file_number(&store->file);

	if (number < 0)
		nvs_job_fail(&store->job, NVS_TRANSFER_NO_FILE);
	else if (fdatasync(number))
		nvs_job_fail(&store->job, errno);
	else
		posix_fadvise(number, 0, 0, POSIX_FADV_DONTNEED);
}

static void finish_writing(void *owner)
{
	struct nvs_store *store = owner;

	synchronize(store);
	if (!nvs_store_begin_freeing(store, &freeing, nvs_arena_segments(store->device)))
		tell_and_end_file(store, NVS_STORE_KEPT);
}

static const struct nvs_job_work writing = { write_one, finish_writing };

static bool prepare_sums(struct nvs_store *store)
{
	store->sums = malloc((store->count + 1) * sizeof(*store->sums));
	return store->sums &&
	       syscall(SYS_getrandom, store->key, sizeof(store->key), 0) == sizeof(store->key);
}

static bool is_empty_file(const struct nvs_file *file)
{
	int number = nvs_file_number(file);
	struct stat status;

	return number >= 0 && !fstat(number, &status) && S_ISREG(status.st_mode) && !status.st_size;
}

bool nvs_store_file(struct nvs_device *device, struct nvs_file *file, const char **why)
{
	struct nvs_store *store = nvs_store_of(device);

	if (!is_empty_file(file))
		return false;
	*why = nvs_store_prepare(store, device);
	if (!*why && !prepare_sums(store))
		*why = "there is no memory to note what it has";
	if (*why) {
		nvs_store_forget(store);
		return true;
	}
	store->reads = &reading;
	nvs_store_take_file(&store->file, file);
	nvs_store_begin(store, &writing, store->count);
	return true;
}
