/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on their way. No state beside the record that is passed in, which is its mover's; no lock.
 *
 * What leaves is hashed first, unless it is clean: the hash is made on the device at the rate of
 * its memory, so it costs a fiftieth of the copy that it may save, beside the copies of others. It
 * is that of what the host copy gets then, and at the next time says whether the host copy, which
 * stays in the arena while nobody needs its place, still has the contents. On a device that another
 * process computes on, a kernel of ours waits for its turn, so what has changed each time is hashed
 * less and less often.
 */
#define _GNU_SOURCE
#include "memory/swap/flights.h"

#include <time.h>

#include "gate/device.h"
#include "gate/lost.h"
#include "memory/swap/arena.h"
#include "memory/swap/chunk.h"
#include "process/log.h"

/* Between two looks at an event: a copy takes a millisecond, a hash 30 us. */
#define LOOK_NS 100000
#define LOOK_AT_HASH_NS 10000
#define MOST_CHANGES 3 /* that count: 7 times without a hash, and then the two that tell */

void nvs_flights_say_failed(struct nvs_flights *flights, CUresult result, bool out)
{
	nvs_lost_suspect(flights->device, result);
	if (!flights->failed)
		nvs_log("device %d: memory could not be brought %s (error %d); trying again",
			flights->device->ordinal, out ? "out" : "back", (int)result);
	flights->failed = true;
}

static unsigned int slot_of(const struct nvs_flights *flights, unsigned int number)
{
	return (flights->first + number) % NVS_COPIES;
}

static unsigned int free_slot(const struct nvs_flights *flights)
{
	return slot_of(flights, flights->count);
}

static void add(struct nvs_flights *flights, struct nvs_chunk *chunk, enum nvs_flight_stage stage)
{
	flights->list[free_slot(flights)] = (struct nvs_flight){ .chunk = chunk, .stage = stage };
	flights->count++;
}

static bool copy(struct nvs_flights *flights, struct nvs_chunk *chunk, bool out, unsigned int slot)
{
	CUresult result = nvs_copies_submit(&flights->copies, chunk, out, slot);

	if (result != CUDA_SUCCESS)
		nvs_flights_say_failed(flights, result, out);
	return result == CUDA_SUCCESS;
}

/* `hash` NULL: it is not known. */
static bool copy_out(struct nvs_flights *flights, struct nvs_chunk *chunk,
		     const struct nvs_hash *hash, unsigned int slot)
{
	/* From here on the host copy is half an old one and half a new one. */
	chunk->host_copy = chunk->zeros = false;
	chunk->hashed = hash != NULL;
	if (hash)
		chunk->hash = *hash;
	return copy(flights, chunk, true, slot);
}

static bool is_hashed(struct nvs_chunk *chunk)
{
	if (nvs_chunk_is_managed(chunk))
		return false;
	if (!chunk->unhashed)
		return true;
	chunk->unhashed--;
	return false;
}

bool nvs_flights_leave(struct nvs_flights *flights, struct nvs_chunk *chunk, bool clean)
{
	unsigned int slot = free_slot(flights);
	enum nvs_flight_stage stage = NVS_FLIGHT_COPY;

	if (clean)
		stage = NVS_FLIGHT_NOTHING;
	else if (is_hashed(chunk) && nvs_copies_hash(&flights->copies, chunk, slot) == CUDA_SUCCESS)
		stage = NVS_FLIGHT_HASH;
	if (stage == NVS_FLIGHT_COPY && !copy_out(flights, chunk, NULL, slot))
		return false;
	add(flights, chunk, stage);
	return true;
}

bool nvs_flights_enter(struct nvs_flights *flights, struct nvs_chunk *chunk)
{
	bool copies = chunk->host_copy || chunk->zeros;

	if (copies && !copy(flights, chunk, false, free_slot(flights)))
		return false;
	add(flights, chunk, copies ? NVS_FLIGHT_COPY : NVS_FLIGHT_NOTHING);
	return true;
}

/* It is hashed, and so was the host copy. */
static bool has_changed(struct nvs_chunk *chunk, const struct nvs_hash *hash)
{
	if (nvs_hash_equal(&chunk->hash, hash)) {
		chunk->changes = 0;
		return false;
	}
	if (chunk->changes < MOST_CHANGES)
		chunk->changes++;
	chunk->unhashed = (uint8_t)((1u << chunk->changes) - 1);
	return true;
}

/* What leaves is hashed. */
static void finish_hash(struct nvs_flights *flights, struct nvs_flight *flight, unsigned int slot)
{
	struct nvs_chunk *chunk = flight->chunk;
	struct nvs_hash hash;

	nvs_contents_read(&flights->copies.contents, chunk, slot, &hash);
	flight->stage = NVS_FLIGHT_NOTHING;
	if (chunk->host_copy && chunk->hashed && !has_changed(chunk, &hash))
		return;
	if (hash.zeros) {
		chunk->host_copy = false;
		chunk->zeros = true;
		nvs_arena_give(chunk);
		return;
	}
	flight->failed = !copy_out(flights, chunk, &hash, slot);
	if (!flight->failed)
		flight->stage = NVS_FLIGHT_COPY;
}

/* False: what its event is behind is not done. */
static bool look_at_one(struct nvs_flights *flights, bool out, unsigned int slot)
{
	struct nvs_flight *flight = &flights->list[slot];
	CUresult result = nvs_copies_query(&flights->copies, out, slot);

	if (result == CUDA_ERROR_NOT_READY)
		return false;
	if (result == CUDA_SUCCESS && flight->stage == NVS_FLIGHT_HASH) {
		finish_hash(flights, flight, slot);
		return true;
	}
	if (result != CUDA_SUCCESS)
		nvs_flights_say_failed(flights, result, out);
	else if (out)
		flight->chunk->host_copy = true;
	flight->copied = result == CUDA_SUCCESS;
	flight->failed = !flight->copied;
	flight->stage = NVS_FLIGHT_NOTHING;
	return true;
}

/*
 * A copy begins as soon as the hash is known, whatever is before it. Each look costs a call of the
 * driver, so a hash that is not there is taken for a sign that later ones are not, either.
 */
static void look_at_hashes(struct nvs_flights *flights)
{
	for (unsigned int i = 0; i < flights->count; i++) {
		unsigned int slot = slot_of(flights, i);

		if (flights->list[slot].stage == NVS_FLIGHT_HASH &&
		    !look_at_one(flights, true, slot))
			return;
	}
}

struct nvs_flight nvs_flights_land(struct nvs_flights *flights, bool out)
{
	struct nvs_flight *oldest = &flights->list[flights->first];

	for (;;) {
		look_at_hashes(flights);
		if (oldest->stage == NVS_FLIGHT_NOTHING ||
		    (oldest->stage == NVS_FLIGHT_COPY && look_at_one(flights, out, flights->first)))
			break;
		nanosleep(&(struct timespec){ .tv_nsec = oldest->stage == NVS_FLIGHT_HASH
								 ? LOOK_AT_HASH_NS
								 : LOOK_NS },
			  NULL);
	}
	flights->first = slot_of(flights, 1);
	flights->count--;
	return *oldest;
}
