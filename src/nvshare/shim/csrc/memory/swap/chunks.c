/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the chunks. A device's lock protects their places (places.c), and of each chunk place,
 * entered and pins; it is signalled when a chunk leaves the hands that it was in. What is mapped
 * where belongs to whoever has the chunk in hand, the mover (MOVING) or a thread that has entered
 * it; so no lock is held while the driver is called, and no thread is cancelled while it has a
 * chunk in hand.
 */
#include "memory/swap/chunks.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/room.h"
#include "memory/swap/places.h"
#include "process/mutex.h"
#include "process/thread.h"

struct store {
	struct nvs_mutex lock;
	struct nvs_places places;
	uint64_t peers; /* that may reach plain memory */
};

static struct store stores[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
						 1] = { .lock = NVS_MUTEX(NVS_ORDER_CHUNKS) } };
static void (*listener)(struct nvs_chunk *chunk);

static struct store *store_of(const struct nvs_device *device)
{
	return &stores[device->ordinal];
}

void nvs_chunks_on_end(void (*ended)(struct nvs_chunk *chunk))
{
	listener = ended;
}

struct nvs_chunk *nvs_chunk_begin_out(struct nvs_device *device, uint64_t host_bytes)
{
	struct store *store = store_of(device);
	struct nvs_chunk *chunk;
	bool entered;

	NVS_HOLD(&store->lock);
	nvs_places_quiet(&store->places);
	while (!(chunk = nvs_places_find_here(&store->places, host_bytes, &entered)) && entered)
		nvs_mutex_wait(&store->lock);
	if (chunk)
		nvs_places_lift(&store->places, chunk);
	return chunk;
}

/* With the lock held: a chunk that was MOVING, and counted as resident, is no more. */
static void moved(struct store *store, struct nvs_chunk *chunk, int place)
{
	nvs_places_set_down(&store->places, chunk, place);
	nvs_mutex_changed(&store->lock);
}

static void left(struct nvs_chunk *chunk, int place)
{
	struct store *store = store_of(chunk->device);

	NVS_HOLD(&store->lock);
	moved(store, chunk, place);
}

/* The chunk is here; `clean`: with the contents of its host copy. */
static void arrived(struct nvs_chunk *chunk, bool clean)
{
	struct store *store = store_of(chunk->device);

	nvs_chunk_close_window(chunk);
	nvs_mutex_lock(&store->lock);
	/* Peers may have been allowed meanwhile. */
	while (chunk->peers != store->peers) {
		uint64_t before = chunk->peers;

		chunk->peers = store->peers;
		nvs_mutex_unlock(&store->lock);
		nvs_chunk_apply_peers(chunk, before);
		nvs_mutex_lock(&store->lock);
	}
	if (clean)
		chunk->clean_at = nvs_chunks_submissions();
	moved(store, chunk, NVS_PLACE_DEVICE);
	nvs_mutex_unlock(&store->lock);
}

static void leave_device(struct nvs_chunk *chunk)
{
	chunk->had_contents = chunk->host_copy || (chunk->had_contents && !chunk->zeros);
	left(chunk, chunk->host_copy ? NVS_PLACE_HOST : NVS_PLACE_NOWHERE);
}

CUresult nvs_chunk_out(struct nvs_chunk *chunk)
{
	CUresult result = nvs_chunk_give_memory(chunk);

	if (result == CUDA_SUCCESS)
		leave_device(chunk);
	return result;
}

void nvs_chunk_stays(struct nvs_chunk *chunk)
{
	arrived(chunk, false);
}

bool nvs_chunk_fits(struct nvs_device *device, uint64_t most_bytes)
{
	struct store *store = store_of(device);
	bool entered;

	NVS_HOLD(&store->lock);
	return nvs_places_find_out(&store->places, most_bytes, &entered) || entered;
}

struct nvs_chunk *nvs_chunk_begin_in(struct nvs_device *device, uint64_t most_bytes,
				     CUresult *result)
{
	struct store *store = store_of(device);
	struct nvs_chunk *chunk;
	bool entered;
	int place;

	*result = CUDA_SUCCESS;
	nvs_mutex_lock(&store->lock);
	nvs_places_quiet(&store->places);
	while (!(chunk = nvs_places_find_out(&store->places, most_bytes, &entered)) && entered)
		nvs_mutex_wait(&store->lock);
	if (!chunk) {
		nvs_mutex_unlock(&store->lock);
		return NULL;
	}
	place = chunk->place;
	nvs_places_lift(&store->places, chunk);
	chunk->peers = store->peers;
	nvs_mutex_unlock(&store->lock);
	*result = nvs_chunk_make_memory(chunk);
	if (*result == CUDA_SUCCESS)
		return chunk;
	left(chunk, place);
	return NULL;
}

void nvs_chunk_in(struct nvs_chunk *chunk)
{
	/* What was prefetched is in one place only. */
	if (nvs_chunk_is_managed(chunk))
		chunk->host_copy = false;
	arrived(chunk, true);
}

void nvs_chunk_back(struct nvs_chunk *chunk)
{
	/* Whether or not the driver takes its memory back: the contents are not in there. */
	nvs_chunk_give_memory(chunk);
	leave_device(chunk);
}

static uint64_t read_locked(const struct nvs_device *device, const uint64_t *sum)
{
	struct store *store = store_of(device);

	NVS_HOLD(&store->lock);
	return *sum;
}

uint64_t nvs_chunks_resident(const struct nvs_device *device)
{
	return read_locked(device, &store_of(device)->places.resident);
}

uint64_t nvs_chunks_out_bytes(const struct nvs_device *device)
{
	return read_locked(device, &store_of(device)->places.out_bytes);
}

uint64_t nvs_chunks_swapped_bytes(const struct nvs_device *device)
{
	return read_locked(device, &store_of(device)->places.swapped_bytes);
}

bool nvs_chunks_exportable(const struct nvs_device *device)
{
	int supported = 0;

	return NVS_CALL(cuDeviceGetAttribute, &supported,
			CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
			device->ordinal) == CUDA_SUCCESS &&
	       supported;
}

CUresult nvs_chunk_create(struct nvs_device *device, uint64_t bytes,
			  const CUmemAllocationProp_v1 *prop, bool resident,
			  struct nvs_chunk **created)
{
	struct nvs_chunk *chunk = calloc(1, sizeof(*chunk));
	struct store *store = store_of(device);
	CUresult result = CUDA_SUCCESS;

	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	chunk->device = device;
	chunk->bytes = bytes;
	if (prop)
		chunk->prop = *prop;
	else
		chunk->prop = (CUmemAllocationProp_v1){
			.type = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal },
			/* It costs nothing, and can't be asked for later. */
			.handle_types = nvs_chunks_exportable(device)
						? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
						: CU_MEM_HANDLE_TYPE_NONE,
		};
	if (resident)
		result = nvs_chunk_make_memory(chunk);
	if (result != CUDA_SUCCESS) {
		free(chunk);
		return result;
	}
	nvs_cancel_off();
	chunk->entered = true;
	nvs_mutex_lock(&store->lock);
	chunk->clean_at = nvs_places_fresh(&store->places);
	chunk->peers = store->peers;
	nvs_places_put(&store->places, chunk, resident ? NVS_PLACE_DEVICE : NVS_PLACE_NOWHERE);
	nvs_mutex_unlock(&store->lock);
	*created = chunk;
	return CUDA_SUCCESS;
}

void nvs_chunk_enter(struct nvs_chunk *chunk)
{
	struct store *store = store_of(chunk->device);

	nvs_cancel_off();
	NVS_HOLD(&store->lock);
	while (chunk->entered || chunk->place == NVS_PLACE_MOVING)
		nvs_mutex_wait(&store->lock);
	chunk->entered = true;
}

void nvs_chunk_leave(struct nvs_chunk *chunk)
{
	struct nvs_device *device = chunk->device;
	struct store *store = store_of(device);
	bool out;

	nvs_mutex_lock(&store->lock);
	chunk->entered = false;
	out = nvs_chunk_is_out(chunk);
	nvs_mutex_changed(&store->lock);
	nvs_mutex_unlock(&store->lock);
	nvs_cancel_on();
	if (out)
		nvs_room_changed(device);
}

void nvs_chunk_end(struct nvs_chunk *chunk)
{
	struct store *store = store_of(chunk->device);
	uint64_t resident;

	nvs_mutex_lock(&store->lock);
	resident = nvs_chunk_is_out(chunk) ? 0 : chunk->bytes;
	nvs_places_remove(&store->places, chunk);
	nvs_mutex_changed(&store->lock);
	nvs_mutex_unlock(&store->lock);
	nvs_chunk_drop_memory(chunk);
	nvs_chunk_forget_mappings(chunk);
	if (chunk->pins)
		nvs_room_give_fixed(chunk->device, chunk->bytes);
	else
		nvs_room_give(chunk->device, chunk->bytes, resident);
	if (listener)
		listener(chunk);
	free(chunk);
	nvs_cancel_on();
}

bool nvs_chunk_pin(struct nvs_chunk *chunk)
{
	struct store *store = store_of(chunk->device);
	bool here, first;

	nvs_mutex_lock(&store->lock);
	here = !nvs_chunk_is_out(chunk);
	first = here && !chunk->pins;
	if (first)
		nvs_places_pin(&store->places, chunk);
	if (here)
		chunk->pins++;
	nvs_mutex_unlock(&store->lock);
	if (first)
		nvs_room_pin(chunk->device, chunk->bytes);
	return here;
}

CUresult nvs_chunks_allow(struct nvs_device *device, uint64_t peers)
{
	struct store *store = store_of(device);
	CUresult result = CUDA_SUCCESS, one;
	struct nvs_chunk *chunk;
	uint64_t before;

	nvs_cancel_off();
	nvs_mutex_lock(&store->lock);
	store->peers = peers;
	/* Whoever comes into the list from here on knows of them. */
	for (chunk = store->places.here.last; chunk;) {
		if (chunk->peers == peers) {
			chunk = chunk->before;
			continue;
		}
		if (chunk->entered) {
			nvs_mutex_wait(&store->lock);
			chunk = store->places.here.last;
			continue;
		}
		chunk->entered = true;
		before = chunk->peers;
		chunk->peers = peers;
		nvs_mutex_unlock(&store->lock);
		one = nvs_chunk_apply_peers(chunk, before);
		if (result == CUDA_SUCCESS)
			result = one;
		nvs_mutex_lock(&store->lock);
		chunk->entered = false;
		nvs_mutex_changed(&store->lock);
	}
	nvs_mutex_unlock(&store->lock);
	nvs_cancel_on();
	return result;
}

uint64_t nvs_chunks_allowed(const struct nvs_device *device)
{
	return read_locked(device, &store_of(device)->peers);
}

void nvs_chunks_forked(void)
{
	for (struct store *store = stores; store < stores + NVS_MAX_DEVICES; store++)
		*store = (struct store){ .lock = NVS_MUTEX(NVS_ORDER_CHUNKS) };
}
