/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the stores of all devices, and what is common to all that is done behind the closed door:
 * the stages, and that memory comes back. files.c keeps fork away while a file is taken or closed.
 */
#include "memory/away/store.h"

#include <errno.h>
#include <stdlib.h>

#include "gate/device.h"
#include "memory/away/arena_away.h"
#include "memory/swap/pieces.h"
#include "memory/away/store_record.h"
#include "memory/away/transfer.h"

#define NEW_STORE { .job = NVS_NO_JOB, .file = { .number = -1 }, .catalogue = { .number = -1 } }

static struct nvs_store stores[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES - 1] = NEW_STORE };

struct nvs_store *nvs_store_of(const struct nvs_device *device)
{
	return &stores[device->ordinal];
}

enum nvs_store_stage nvs_store_stage(const struct nvs_device *device)
{
	return (enum nvs_store_stage)atomic_load(&nvs_store_of(device)->stage);
}

bool nvs_stores_hold(void)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (nvs_store_stage(device) != NVS_STORE_MEMORY)
			return true;
	return false;
}

/* What is begun */

void nvs_store_forget(struct nvs_store *store)
{
	nvs_file_end(&store->catalogue);
	free(store->contents);
	free(store->sums);
	free(store->entries);
	store->contents = NULL;
	store->sums = NULL;
	store->entries = NULL;
	store->count = 0;
}

const char *nvs_store_prepare(struct nvs_store *store, struct nvs_device *device)
{
	nvs_store_forget(store);
	store->device = device;
	if (nvs_pieces_known(device))
		return "the driver has its host memory registered";
	if (!nvs_arena_bytes(device))
		return "it has no host memory";
	if (nvs_arena_waits(device))
		return "not all of it can be mapped";
	if (!nvs_arena_contents(device, &store->contents, &store->count))
		return "there is no memory to note what it has";
	return NULL;
}

void nvs_store_take_file(struct nvs_file *file, struct nvs_file *whose)
{
	nvs_files_lock();
	*file = *whose;
	*whose = NVS_NO_FILE;
	nvs_files_unlock();
}

void nvs_store_begin(struct nvs_store *store, const struct nvs_job_work *work, uint32_t count)
{
	nvs_job_begin(&store->job, work, store, false);
	atomic_store(&store->stage, NVS_STORE_BUSY);
	nvs_job_let(&store->job, count, true);
}

void nvs_store_cancel(const struct nvs_device *device)
{
	if (nvs_store_stage(device) == NVS_STORE_BUSY)
		nvs_job_cancel(&nvs_store_of(device)->job);
}

bool nvs_store_begin_freeing(struct nvs_store *store, const struct nvs_job_work *work,
			     uint32_t count)
{
	if (nvs_job_end(&store->job) != NVS_TRANSFERRED)
		return false;
	nvs_job_begin(&store->job, work, store, true);
	atomic_store(&store->stage, NVS_STORE_FREEING);
	nvs_job_let(&store->job, count, true);
	return true;
}

void nvs_store_tell(struct nvs_store *store, enum nvs_store_end end)
{
	atomic_store(&store->end, end);
	NVS_EACH_DEVICE(device, UINT64_MAX)
		nvs_device_tell(device, NVS_NEWS_STORE);
}

enum nvs_store_end nvs_store_read(struct nvs_store *store)
{
	return nvs_job_end(&store->job) == NVS_TRANSFERRED ? NVS_STORE_LOADED : NVS_STORE_LOST;
}

/* What comes back */

/* How many of the granules have memory, from the first on. */
static uint32_t ready_contents(const struct nvs_store *store)
{
	uint32_t ready = store->job.ready;

	while (ready < store->count &&
	       !nvs_arena_is_away(store->device, store->contents[ready].granule))
		ready++;
	return ready;
}

bool nvs_store_give(struct nvs_device *device, int descriptor, uint64_t bytes)
{
	struct nvs_store *store = nvs_store_of(device);
	uint32_t ready;
	bool all;

	if (!nvs_arena_is_segment(descriptor, bytes) || bytes > nvs_arena_away_bytes(device))
		return false;
	if (!nvs_arena_put_back(device, descriptor, bytes))
		nvs_job_fail(&store->job, ENOMEM);
	ready = ready_contents(store);
	all = !nvs_arena_away_bytes(device);
	if (all)
		atomic_store(&store->stage, NVS_STORE_READING);
	if (all || ready > store->job.ready)
		nvs_job_let(&store->job, ready, all);
	return true;
}

static void begin_reading(struct nvs_store *store)
{
	nvs_job_begin(&store->job, store->reads, store, true);
}

void nvs_store_let_go(struct nvs_device *device)
{
	struct nvs_store *store = nvs_store_of(device);

	if (nvs_store_stage(device) != NVS_STORE_AWAY)
		return;
	nvs_job_stop(&store->job);
	begin_reading(store);
	nvs_arena_take_back(device);
}

/* The end */

enum nvs_store_end nvs_store_ended(struct nvs_device *device, char *why, size_t size)
{
	struct nvs_store *store = nvs_store_of(device);
	enum nvs_store_end end = (enum nvs_store_end)atomic_exchange(&store->end, NVS_STORE_NO_END);

	if (end == NVS_STORE_NO_END)
		return end;
	nvs_transfer_explain(store->job.failure, why, size);
	if (end == NVS_STORE_GONE)
		begin_reading(store);
	else if (end != NVS_STORE_KEPT)
		nvs_arena_keep(device);
	/* Another step with the same catalogue may follow. */
	if (end != NVS_STORE_GONE && (end != NVS_STORE_KEPT || !store->entries))
		nvs_store_forget(store);
	atomic_store(&store->stage, end == NVS_STORE_GONE ? NVS_STORE_AWAY : NVS_STORE_MEMORY);
	return end;
}

void nvs_stores_forked(void)
{
	for (struct nvs_store *store = stores; store < stores + NVS_MAX_DEVICES; store++) {
		nvs_file_close(&store->file);
		nvs_file_close(&store->catalogue);
		*store = (struct nvs_store)NEW_STORE;
	}
}
