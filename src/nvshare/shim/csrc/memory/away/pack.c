/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns catalogues and the mapped packs.
 *
 * A sum only says where to look: a block is let go of when all of it was compared with the pack,
 * which is sealed, so that nobody can change or cut it. The door is closed, so nothing of the
 * process changes what is compared.
 */
#define _GNU_SOURCE
#include "memory/away/pack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "gate/device.h"
#include "memory/away/arena_away.h"
#include "memory/swap/chunk.h"
#include "memory/away/store.h"
#include "memory/away/store_record.h"
#include "memory/away/transfer.h"
#include "protocol/catalogue.h"
#include "protocol/wire.h"

_Static_assert(NVS_CATALOGUE_BLOCK_BYTES == NVS_GRANULE_BYTES, "a block is a granule");
_Static_assert(NVS_CATALOGUE_KEYS == NVS_SUM_KEYS, "the key is that of the sums");

#define MOST_ROWS 8192 /* a process may have 65530 places mapped, and has others */

static const struct nvs_job_work reading;

/* Bytes of a regular file; 0: it is none, or empty. */
static uint64_t size_of(const struct nvs_file *file, uint64_t *inode)
{
	int number = nvs_file_number(file);
	struct stat status;

	if (number < 0 || fstat(number, &status) || !S_ISREG(status.st_mode) || status.st_size < 0)
		return 0;
	*inode = status.st_ino;
	return (uint64_t)status.st_size;
}

/* Sums */

static int transfer_entries(struct nvs_store *store, bool writes)
{
	return nvs_transfer_bytes(&store->catalogue, writes, store->entries,
				  store->count * sizeof(*store->entries),
				  sizeof(struct nvs_catalogue_head));
}

static int sum_one(void *owner, uint32_t index)
{
	struct nvs_store *store = owner;

	store->entries[index] = (struct nvs_catalogue_entry){
		.sum = nvs_sum(store->key, 0, store->contents[index].place, NVS_GRANULE_BYTES),
		.block = NVS_CATALOGUE_NO_BLOCK,
	};
	return NVS_TRANSFERRED;
}

static void finish_sums(void *owner)
{
	struct nvs_store *store = owner;
	int failure = nvs_job_end(&store->job);

	if (failure == NVS_TRANSFERRED)
		nvs_job_fail(&store->job, transfer_entries(store, true));
	nvs_store_tell(store, NVS_STORE_KEPT);
}

static const struct nvs_job_work summing = { sum_one, finish_sums };

bool nvs_pack_sum(struct nvs_device *device, struct nvs_file *catalogue, const char **why)
{
	struct nvs_store *store = nvs_store_of(device);
	struct nvs_catalogue_head head;
	uint64_t inode;

	if (size_of(catalogue, &inode) < sizeof(head) ||
	    nvs_transfer_bytes(catalogue, false, &head, sizeof(head), 0) != NVS_TRANSFERRED)
		return false;
	*why = nvs_store_prepare(store, device);
	if (!*why && store->count > head.room)
		*why = "it has more blocks than the catalogue has room for";
	if (!*why) {
		store->entries = malloc((store->count + 1) * sizeof(*store->entries));
		if (!store->entries)
			*why = "there is no memory to note what it has";
	}
	if (*why) {
		nvs_store_forget(store);
		return true;
	}
	memcpy(store->key, head.key, sizeof(store->key));
	nvs_store_take_file(&store->catalogue, catalogue);
	nvs_store_begin(store, &summing, store->count);
	return true;
}

/* What the catalogue says of a pack with so many bytes. False: there is no catalogue. */
static bool read_catalogue(struct nvs_store *store, uint64_t pack_bytes, const char **why)
{
	uint64_t blocks = pack_bytes / NVS_GRANULE_BYTES;

	if (store->catalogue.number < 0)
		return false;
	*why = NULL;
	if (transfer_entries(store, false) != NVS_TRANSFERRED)
		*why = "the catalogue can't be read";
	for (uint32_t i = 0; !*why && i < store->count; i++)
		if (store->entries[i].block != NVS_CATALOGUE_NO_BLOCK &&
		    store->entries[i].block >= blocks)
			*why = "the catalogue names blocks that the pack does not have";
	return true;
}

/* A new pack */

static int write_one(void *owner, uint32_t index)
{
	struct nvs_store *store = owner;
	uint32_t block = store->entries[index].block;

	if (block == NVS_CATALOGUE_NO_BLOCK)
		return NVS_TRANSFERRED;
	return nvs_transfer(&store->file, true, store->contents[index].place, block);
}

/* Nobody may be able to write any more when it is said to be written: it is to be sealed. */
static void finish_writing(void *owner)
{
	struct nvs_store *store = owner;

	nvs_job_end(&store->job);
	nvs_file_end(&store->file);
	nvs_store_tell(store, NVS_STORE_KEPT);
}

static const struct nvs_job_work writing = { write_one, finish_writing };

bool nvs_pack_write(struct nvs_device *device, struct nvs_file *pack, const char **why)
{
	struct nvs_store *store = nvs_store_of(device);
	uint64_t inode, bytes = size_of(pack, &inode);

	if (!bytes || !read_catalogue(store, bytes, why))
		return false;
	if (*why)
		return true;
	nvs_store_take_file(&store->file, pack);
	nvs_store_begin(store, &writing, store->count);
	return true;
}

/* Away */

static char *block_of(const struct nvs_store *store, uint32_t index)
{
	return (char *)store->pack + (uint64_t)store->entries[index].block * NVS_GRANULE_BYTES;
}

static void end_pack(struct nvs_store *store, enum nvs_store_end end)
{
	munmap((char *)store->pack, store->pack_bytes);
	store->pack = NULL;
	nvs_store_tell(store, end);
}

static int free_one(void *owner, uint32_t index)
{
	struct nvs_store *store = owner;
	struct nvs_catalogue_entry *entry = store->entries + index;

	if (entry->block != NVS_CATALOGUE_NO_BLOCK &&
	    !nvs_arena_let_go_granule(store->device, store->contents[index].granule))
		entry->block = NVS_CATALOGUE_NO_BLOCK;
	return NVS_TRANSFERRED;
}

/* Only what has a block is of interest from here on. False: there is nothing, and all stays. */
static bool keep_those_with_blocks(struct nvs_store *store)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < store->count; i++)
		if (store->entries[i].block != NVS_CATALOGUE_NO_BLOCK) {
			store->contents[kept] = store->contents[i];
			store->entries[kept++] = store->entries[i];
		}
	if (kept)
		store->count = kept;
	return kept;
}

static void finish_freeing(void *owner)
{
	struct nvs_store *store = owner;

	if (keep_those_with_blocks(store)) {
		nvs_file_end(&store->catalogue);
		nvs_store_tell(store, NVS_STORE_GONE);
	} else {
		nvs_job_fail(&store->job, NVS_TRANSFER_NOTHING);
		end_pack(store, NVS_STORE_KEPT);
	}
}

static const struct nvs_job_work freeing = { free_one, finish_freeing };

static int compare_one(void *owner, uint32_t index)
{
	struct nvs_store *store = owner;
	struct nvs_catalogue_entry *entry = store->entries + index;

	if (entry->block != NVS_CATALOGUE_NO_BLOCK &&
	    memcmp(store->contents[index].place, block_of(store, index), NVS_GRANULE_BYTES))
		entry->block = NVS_CATALOGUE_NO_BLOCK;
	return NVS_TRANSFERRED;
}

/* Each row that is away and comes back is a place of its own for the kernel. */
static void leave_rows(struct nvs_store *store)
{
	uint32_t rows = 0, next = UINT32_MAX;

	for (uint32_t i = 0; i < store->count; i++) {
		if (store->entries[i].block == NVS_CATALOGUE_NO_BLOCK)
			continue;
		rows += store->contents[i].granule != next;
		next = store->contents[i].granule + 1;
		if (rows > MOST_ROWS)
			store->entries[i].block = NVS_CATALOGUE_NO_BLOCK;
	}
}

static void finish_comparing(void *owner)
{
	struct nvs_store *store = owner;

	leave_rows(store);
	if (!nvs_store_begin_freeing(store, &freeing, store->count))
		end_pack(store, NVS_STORE_KEPT);
}

static const struct nvs_job_work comparing = { compare_one, finish_comparing };

bool nvs_pack_dedup(struct nvs_device *device, struct nvs_file *pack, const char **why)
{
	struct nvs_store *store = nvs_store_of(device);
	uint64_t inode, bytes = size_of(pack, &inode);

	if (!bytes || !read_catalogue(store, bytes, why))
		return false;
	if (*why)
		return true;
	store->pack = nvs_file_map_sealed(nvs_file_number(pack), bytes);
	if (!store->pack) {
		*why = "the pack can be changed, or can't be mapped";
		return true;
	}
	store->pack_bytes = bytes;
	store->pack_inode = inode;
	store->reads = &reading;
	nvs_store_begin(store, &comparing, store->count);
	return true;
}

/* Back */

static int read_one(void *owner, uint32_t index)
{
	struct nvs_store *store = owner;

	memcpy(store->contents[index].place, block_of(store, index), NVS_GRANULE_BYTES);
	return NVS_TRANSFERRED;
}

static void finish_reading(void *owner)
{
	end_pack(owner, nvs_store_read(owner));
}

static const struct nvs_job_work reading = { read_one, finish_reading };

/* The client */

uint32_t nvs_pack_count(const struct nvs_device *device)
{
	return nvs_store_of(device)->count;
}

bool nvs_pack_tells(const struct nvs_device *device, struct nvs_wire_sharing *sharing)
{
	const struct nvs_store *store = nvs_store_of(device);

	if (nvs_store_stage(device) != NVS_STORE_AWAY || !store->pack)
		return false;
	sharing->away_bytes = (uint64_t)store->count * NVS_GRANULE_BYTES;
	sharing->pack_bytes = store->pack_bytes;
	sharing->pack = store->pack_inode;
	return true;
}

bool nvs_pack_has(const struct nvs_device *device)
{
	return nvs_store_stage(device) != NVS_STORE_MEMORY && nvs_store_of(device)->entries;
}

void nvs_pack_forget(struct nvs_device *device)
{
	struct nvs_store *store = nvs_store_of(device);

	if (nvs_store_stage(device) == NVS_STORE_MEMORY && store->entries)
		nvs_store_forget(store);
}
