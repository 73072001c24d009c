/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the handles that are ours, in the order of their numbers, which only grow. `lock` protects
 * the table and the counts of each handle; it is held for look-ups only. A handle's chunks end with
 * the last who owns or holds it.
 */
#include "memory/swap/handles.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "memory/footprint.h"
#include "memory/room.h"
#include "memory/swap/chunks.h"

/*
 * The driver's handles are addresses of its own records or small numbers. No address has both of
 * its two highest bits set and the next one not.
 */
#define OURS (0xc0deull << 48)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvs_handle **handles;
static size_t count, room;
static uint64_t last;

/* With the lock held: where the number is, or would be. */
static size_t place_of(CUmemGenericAllocationHandle number)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (handles[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Gives the handle its number. False: no host memory. */
static bool enter(struct nvs_handle *handle)
{
	bool entered = true;

	pthread_mutex_lock(&lock);
	if (count == room) {
		size_t more = room ? 2 * room : 64;
		struct nvs_handle **grown = realloc(handles, more * sizeof(struct nvs_handle *));

		entered = grown != NULL;
		handles = entered ? grown : handles;
		room = entered ? more : room;
	}
	if (entered) {
		handle->number = OURS + ++last;
		handles[count++] = handle;
	}
	pthread_mutex_unlock(&lock);
	return entered;
}

static void end_chunks(struct nvs_handle *handle)
{
	while (handle->count) {
		struct nvs_chunk *chunk = handle->chunks[--handle->count];

		nvs_chunk_enter(chunk);
		nvs_chunk_end(chunk);
	}
}

/* With the lock held; true: nobody has it any more, it is the caller's to end. */
static bool leave_if_done(struct nvs_handle *handle)
{
	size_t place;

	if (handle->owned || handle->holds)
		return false;
	place = place_of(handle->number);
	memmove(handles + place, handles + place + 1,
		(--count - place) * sizeof(struct nvs_handle *));
	return true;
}

bool nvs_handle_may_move(const CUmemAllocationProp_v1 *prop, size_t bytes, unsigned long long flags)
{
	/* Tiles of sparse arrays are mapped in stream order, by handles that we don't see there. */
	return bytes && bytes % NVS_GRANULE_BYTES == 0 && !flags &&
	       prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       !(prop->flags.usage & CU_MEM_CREATE_USAGE_TILE_POOL);
}

/* What is exported is one thing for the driver, and so is what it compresses. */
static uint64_t chunk_bytes(const CUmemAllocationProp_v1 *prop, uint64_t bytes)
{
	bool whole = prop->handle_types != CU_MEM_HANDLE_TYPE_NONE || prop->flags.compression ||
		     bytes < NVS_CHUNK_BYTES;

	return whole ? bytes : NVS_CHUNK_BYTES;
}

/* The driver's answer to the properties, where no device memory is to be taken. */
static CUresult try_properties(const CUmemAllocationProp_v1 *prop)
{
	CUmemGenericAllocationHandle probe;
	CUresult result;

	if (prop->handle_types == CU_MEM_HANDLE_TYPE_NONE && !prop->flags.compression &&
	    !prop->flags.rdma_capable && !prop->flags.usage)
		return CUDA_SUCCESS; /* those of all memory */
	result = NVS_CALL(cuMemCreate, &probe, NVS_GRANULE_BYTES, prop, 0);
	if (result == CUDA_SUCCESS)
		NVS_CALL(cuMemRelease, probe);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

static CUresult add_chunk(struct nvs_handle *handle, uint64_t bytes, struct nvs_room_given *given)
{
	CUresult result;

	do {
		result = nvs_chunk_create(handle->device, bytes, &handle->prop,
					  given->room == NVS_ROOM_IN,
					  &handle->chunks[handle->count]);
	} while (result == CUDA_ERROR_OUT_OF_MEMORY && given->room == NVS_ROOM_IN &&
		 nvs_room_lacking(handle->device, given, bytes));
	if (result == CUDA_SUCCESS)
		nvs_chunk_leave(handle->chunks[handle->count++]);
	return result;
}

/* Makes the chunks of a handle for which there is room. */
static CUresult fill(struct nvs_handle *handle, uint64_t each, struct nvs_room_given *given)
{
	bool resident = given->room == NVS_ROOM_IN;
	CUresult result = resident ? CUDA_SUCCESS : try_properties(&handle->prop);

	while (result == CUDA_SUCCESS && given->bytes) {
		uint64_t bytes = given->bytes < each ? given->bytes : each;

		result = add_chunk(handle, bytes, given);
		given->bytes -= result == CUDA_SUCCESS ? bytes : 0;
	}
	if (result == CUDA_SUCCESS)
		return result;
	if (given->bytes)
		nvs_room_give(handle->device, given->bytes,
			      given->room == NVS_ROOM_IN ? given->bytes : 0);
	end_chunks(handle);
	return result;
}

CUresult nvs_handle_create(struct nvs_device *device, size_t bytes,
			   const CUmemAllocationProp_v1 *prop, CUmemGenericAllocationHandle *number)
{
	uint64_t each = chunk_bytes(prop, bytes);
	struct nvs_room_given given = { .kind = NVS_ROOM_MOVABLE, .bytes = bytes };
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	struct nvs_handle *handle;

	if (!nvs_footprint_possible(device, bytes))
		return result;
	handle = malloc(sizeof(*handle) + (bytes / each + 1) * sizeof(struct nvs_chunk *));
	given.room = handle ? nvs_room_ask(device, bytes) : NVS_ROOM_REFUSED;
	result = nvs_lost_refusal(device);
	if (given.room != NVS_ROOM_REFUSED) {
		*handle = (struct nvs_handle){
			.device = device, .bytes = bytes, .prop = *prop, .owned = 1
		};
		result = fill(handle, each, &given);
		if (result == CUDA_SUCCESS && !enter(handle)) {
			end_chunks(handle);
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (result == CUDA_SUCCESS)
		*number = handle->number;
	else
		free(handle);
	return result;
}

bool nvs_handle_has_form(CUmemGenericAllocationHandle number)
{
	return number >> 48 == OURS >> 48;
}

struct nvs_handle *nvs_handle_get(CUmemGenericAllocationHandle number)
{
	struct nvs_handle *handle = NULL;
	size_t place;

	if (!nvs_handle_has_form(number))
		return NULL;
	pthread_mutex_lock(&lock);
	place = place_of(number);
	if (place < count && handles[place]->number == number) {
		handle = handles[place];
		handle->holds++;
	}
	pthread_mutex_unlock(&lock);
	return handle;
}

void nvs_handle_hold(struct nvs_handle *handle)
{
	pthread_mutex_lock(&lock);
	handle->holds++;
	pthread_mutex_unlock(&lock);
}

void nvs_handle_put(struct nvs_handle *handle)
{
	bool done;

	pthread_mutex_lock(&lock);
	handle->holds--;
	done = leave_if_done(handle);
	pthread_mutex_unlock(&lock);
	if (!done)
		return;
	end_chunks(handle);
	free(handle);
}

void nvs_handle_own(struct nvs_handle *handle)
{
	pthread_mutex_lock(&lock);
	handle->owned++;
	pthread_mutex_unlock(&lock);
}

bool nvs_handle_disown(struct nvs_handle *handle)
{
	bool owned;

	pthread_mutex_lock(&lock);
	owned = handle->owned > 0;
	handle->owned -= owned;
	pthread_mutex_unlock(&lock);
	return owned;
}

bool nvs_handle_pin(struct nvs_handle *handle, uint64_t offset, uint64_t bytes)
{
	uint64_t at = 0;
	bool pinned = true;

	for (size_t i = 0; pinned && i < handle->count; at += handle->chunks[i++]->bytes) {
		struct nvs_chunk *chunk = handle->chunks[i];

		if (at + chunk->bytes <= offset || at >= offset + bytes)
			continue;
		nvs_chunk_enter(chunk);
		pinned = nvs_chunk_pin(chunk);
		nvs_chunk_leave(chunk);
	}
	return pinned;
}

void nvs_handles_forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	handles = NULL;
	count = room = 0;
}
