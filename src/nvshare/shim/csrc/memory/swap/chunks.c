/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the chunks and the lists of those that are here and of those that are out. A device's lock
 * protects its lists and sums, and of its chunks place, entered and pins; `changed` is signalled
 * when a chunk leaves the hands that it was in. What is mapped where belongs to whoever has the
 * chunk in hand, the mover (MOVING) or a thread that has entered it; so no lock is held while the
 * driver is called, and no thread is cancelled while it has a chunk in hand.
 */
#include "memory/swap/chunks.h"

#include <pthread.h>
#include <stdlib.h>

#include "gate/device.h"
#include "gate/marks.h"
#include "memory/room.h"
#include "process/thread.h"

struct list {
	struct nvs_chunk *first, *last;
};

struct store {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/*
	 * On the device, and may move. A chunk that is clean comes in at the front, any other at
	 * the end; and all of them are written, as far as is known, when something is submitted: so
	 * those that are clean are all in front.
	 */
	struct list here;
	struct list out; /* first in, first out */
	uint64_t resident, out_bytes;
	uint64_t peers; /* that may reach plain memory */
};

static struct store stores[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
						 1] = { .lock = PTHREAD_MUTEX_INITIALIZER,
							.changed = PTHREAD_COND_INITIALIZER } };
static void (*listener)(struct nvs_chunk *chunk);

static struct store *store_of(const struct nvs_device *device)
{
	return &stores[device->ordinal];
}

static void push(struct list *list, struct nvs_chunk *chunk)
{
	chunk->before = NULL;
	chunk->after = list->first;
	if (chunk->after)
		chunk->after->before = chunk;
	else
		list->last = chunk;
	list->first = chunk;
}

static void append(struct list *list, struct nvs_chunk *chunk)
{
	chunk->after = NULL;
	chunk->before = list->last;
	if (chunk->before)
		chunk->before->after = chunk;
	else
		list->first = chunk;
	list->last = chunk;
}

static void take(struct list *list, struct nvs_chunk *chunk)
{
	if (chunk->before)
		chunk->before->after = chunk->after;
	else
		list->first = chunk->after;
	if (chunk->after)
		chunk->after->before = chunk->before;
	else
		list->last = chunk->before;
}

uint64_t nvs_chunks_submissions(void)
{
	uint64_t sum = 0;

	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++) {
		const struct nvs_device *device = nvs_device_known(ordinal);

		if (device)
			sum += nvs_marks_submissions(device);
	}
	return sum;
}

bool nvs_chunk_is_clean(const struct nvs_chunk *chunk)
{
	return chunk->clean_at == nvs_chunks_submissions() &&
	       (chunk->host_copy || !chunk->had_contents);
}

static bool is_out(const struct nvs_chunk *chunk)
{
	return chunk->place == NVS_PLACE_NOWHERE || chunk->place == NVS_PLACE_HOST;
}

/* With the lock held: the chunk goes where its place says, and is counted there. */
static void put(struct store *store, struct nvs_chunk *chunk, int place)
{
	chunk->place = place;
	if (is_out(chunk)) {
		store->out_bytes += chunk->bytes;
		push(&store->out, chunk);
	} else {
		store->resident += chunk->bytes;
		if (chunk->pins)
			return;
		if (nvs_chunk_is_clean(chunk))
			push(&store->here, chunk);
		else
			append(&store->here, chunk);
	}
}

/* With the lock held: the opposite. */
static void remove_chunk(struct store *store, struct nvs_chunk *chunk)
{
	if (is_out(chunk)) {
		store->out_bytes -= chunk->bytes;
		take(&store->out, chunk);
	} else {
		store->resident -= chunk->bytes;
		if (!chunk->pins)
			take(&store->here, chunk);
	}
}

void nvs_chunks_on_end(void (*ended)(struct nvs_chunk *chunk))
{
	listener = ended;
}

/* With the lock held. The first clean one that nobody works on. */
static struct nvs_chunk *find_clean(const struct store *store, bool *entered)
{
	uint64_t submissions = nvs_chunks_submissions();
	struct nvs_chunk *chunk;

	for (chunk = store->here.first; chunk && chunk->clean_at == submissions;
	     chunk = chunk->after) {
		if (!chunk->host_copy && chunk->had_contents)
			continue;
		if (!chunk->entered)
			return chunk;
		*entered = true;
	}
	return NULL;
}

/* With the lock held. Of the others, the one that came first of those for which there is room. */
static struct nvs_chunk *find_written(const struct store *store, uint64_t host_bytes, bool *entered)
{
	struct nvs_chunk *chunk;

	for (chunk = store->here.last; chunk; chunk = chunk->before) {
		if (!chunk->granules && chunk->bytes > host_bytes && !nvs_chunk_is_managed(chunk))
			continue;
		if (!chunk->entered)
			return chunk;
		*entered = true;
	}
	return NULL;
}

struct nvs_chunk *nvs_chunk_begin_out(struct nvs_device *device, uint64_t host_bytes)
{
	struct store *store = store_of(device);
	struct nvs_chunk *chunk;
	bool entered;

	pthread_mutex_lock(&store->lock);
	for (;;) {
		entered = false;
		chunk = find_clean(store, &entered);
		if (!chunk)
			chunk = find_written(store, host_bytes, &entered);
		if (chunk || !entered)
			break;
		pthread_cond_wait(&store->changed, &store->lock);
	}
	if (chunk) {
		take(&store->here, chunk);
		chunk->place = NVS_PLACE_MOVING;
	}
	pthread_mutex_unlock(&store->lock);
	return chunk;
}

/* With the lock held: a chunk that was MOVING, and counted as resident, is no more. */
static void moved(struct store *store, struct nvs_chunk *chunk, int place)
{
	store->resident -= chunk->bytes;
	put(store, chunk, place);
	pthread_cond_broadcast(&store->changed);
}

static void left(struct nvs_chunk *chunk, int place)
{
	struct store *store = store_of(chunk->device);

	pthread_mutex_lock(&store->lock);
	moved(store, chunk, place);
	pthread_mutex_unlock(&store->lock);
}

/* The chunk is here; `clean`: with the contents of its host copy. */
static void arrived(struct nvs_chunk *chunk, bool clean)
{
	struct store *store = store_of(chunk->device);

	nvs_chunk_close_window(chunk);
	pthread_mutex_lock(&store->lock);
	/* Peers may have been allowed meanwhile. */
	while (chunk->peers != store->peers) {
		uint64_t before = chunk->peers;

		chunk->peers = store->peers;
		pthread_mutex_unlock(&store->lock);
		nvs_chunk_apply_peers(chunk, before);
		pthread_mutex_lock(&store->lock);
	}
	if (clean)
		chunk->clean_at = nvs_chunks_submissions();
	moved(store, chunk, NVS_PLACE_DEVICE);
	pthread_mutex_unlock(&store->lock);
}

void nvs_chunk_out(struct nvs_chunk *chunk)
{
	nvs_chunk_drop_memory(chunk);
	chunk->had_contents |= chunk->host_copy;
	left(chunk, chunk->host_copy ? NVS_PLACE_HOST : NVS_PLACE_NOWHERE);
}

void nvs_chunk_stays(struct nvs_chunk *chunk)
{
	arrived(chunk, false);
}

bool nvs_chunk_fits(struct nvs_device *device, uint64_t most_bytes)
{
	struct store *store = store_of(device);
	struct nvs_chunk *chunk;

	pthread_mutex_lock(&store->lock);
	for (chunk = store->out.last; chunk && chunk->bytes > most_bytes; chunk = chunk->before)
		;
	pthread_mutex_unlock(&store->lock);
	return chunk != NULL;
}

struct nvs_chunk *nvs_chunk_begin_in(struct nvs_device *device, uint64_t most_bytes,
				     CUresult *result)
{
	struct store *store = store_of(device);
	struct nvs_chunk *chunk;
	bool entered;
	int place;

	*result = CUDA_SUCCESS;
	pthread_mutex_lock(&store->lock);
	for (;;) {
		entered = false;
		for (chunk = store->out.last; chunk; chunk = chunk->before) {
			if (chunk->bytes > most_bytes)
				continue;
			if (!chunk->entered)
				break;
			entered = true;
		}
		if (chunk || !entered)
			break;
		pthread_cond_wait(&store->changed, &store->lock);
	}
	if (!chunk) {
		pthread_mutex_unlock(&store->lock);
		return NULL;
	}
	remove_chunk(store, chunk);
	place = chunk->place;
	chunk->place = NVS_PLACE_MOVING;
	store->resident += chunk->bytes;
	chunk->peers = store->peers;
	pthread_mutex_unlock(&store->lock);
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
	nvs_chunk_out(chunk);
}

static uint64_t read_locked(const struct nvs_device *device, const uint64_t *sum)
{
	struct store *store = store_of(device);
	uint64_t bytes;

	pthread_mutex_lock(&store->lock);
	bytes = *sum;
	pthread_mutex_unlock(&store->lock);
	return bytes;
}

uint64_t nvs_chunks_resident(const struct nvs_device *device)
{
	return read_locked(device, &store_of(device)->resident);
}

uint64_t nvs_chunks_out_bytes(const struct nvs_device *device)
{
	return read_locked(device, &store_of(device)->out_bytes);
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
		};
	if (resident)
		result = nvs_chunk_make_memory(chunk);
	if (result != CUDA_SUCCESS) {
		free(chunk);
		return result;
	}
	nvs_cancel_off();
	chunk->entered = true;
	pthread_mutex_lock(&store->lock);
	chunk->clean_at = nvs_chunks_submissions();
	chunk->peers = store->peers;
	put(store, chunk, resident ? NVS_PLACE_DEVICE : NVS_PLACE_NOWHERE);
	pthread_mutex_unlock(&store->lock);
	*created = chunk;
	return CUDA_SUCCESS;
}

/* With the lock held, which is given up meanwhile. */
static void enter(struct store *store, struct nvs_chunk *chunk)
{
	while (chunk->entered || chunk->place == NVS_PLACE_MOVING)
		pthread_cond_wait(&store->changed, &store->lock);
	chunk->entered = true;
}

void nvs_chunk_enter(struct nvs_chunk *chunk)
{
	struct store *store = store_of(chunk->device);

	nvs_cancel_off();
	pthread_mutex_lock(&store->lock);
	enter(store, chunk);
	pthread_mutex_unlock(&store->lock);
}

void nvs_chunk_leave(struct nvs_chunk *chunk)
{
	struct nvs_device *device = chunk->device;
	struct store *store = store_of(device);
	bool out;

	pthread_mutex_lock(&store->lock);
	chunk->entered = false;
	out = is_out(chunk);
	pthread_cond_broadcast(&store->changed);
	pthread_mutex_unlock(&store->lock);
	nvs_cancel_on();
	if (out)
		nvs_room_changed(device);
}

void nvs_chunk_end(struct nvs_chunk *chunk)
{
	struct store *store = store_of(chunk->device);
	uint64_t resident;

	pthread_mutex_lock(&store->lock);
	resident = is_out(chunk) ? 0 : chunk->bytes;
	remove_chunk(store, chunk);
	pthread_cond_broadcast(&store->changed);
	pthread_mutex_unlock(&store->lock);
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

	pthread_mutex_lock(&store->lock);
	here = !is_out(chunk);
	first = here && !chunk->pins;
	if (first)
		take(&store->here, chunk);
	if (here)
		chunk->pins++;
	pthread_mutex_unlock(&store->lock);
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
	pthread_mutex_lock(&store->lock);
	store->peers = peers;
	/* Whoever comes into the list from here on knows of them. */
	for (chunk = store->here.last; chunk;) {
		if (chunk->peers == peers) {
			chunk = chunk->before;
			continue;
		}
		if (chunk->entered) {
			pthread_cond_wait(&store->changed, &store->lock);
			chunk = store->here.last;
			continue;
		}
		chunk->entered = true;
		before = chunk->peers;
		chunk->peers = peers;
		pthread_mutex_unlock(&store->lock);
		one = nvs_chunk_apply_peers(chunk, before);
		if (result == CUDA_SUCCESS)
			result = one;
		pthread_mutex_lock(&store->lock);
		chunk->entered = false;
		pthread_cond_broadcast(&store->changed);
	}
	pthread_mutex_unlock(&store->lock);
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
		*store = (struct store){ .lock = PTHREAD_MUTEX_INITIALIZER,
					 .changed = PTHREAD_COND_INITIALIZER };
}
