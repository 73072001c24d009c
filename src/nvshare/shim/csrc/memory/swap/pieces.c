/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers arenas with the driver. No state beside the arena's record, whose lock is not held
 * while the driver is called; the mover alone changes what the driver knows.
 *
 * A process that sleeps may have its arena taken away. The driver would go on with the pages that
 * it has registered, so it is to know of none then.
 */
#include "memory/swap/pieces.h"

#include <stdint.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/room.h"
#include "memory/swap/arena_record.h"
#include "memory/swap/chunk.h"
#include "process/log.h"

/* Where a piece is. */
struct place {
	void *base;
	size_t bytes;
};

/* With the lock held. */
static bool is_to_be_registered(const struct nvs_arena *arena, uint32_t piece)
{
	return (arena->pieces[piece] == NVS_PIECE_UNKNOWN ||
		arena->pieces[piece] == NVS_PIECE_UNSURE) &&
	       !arena->refused && !arena->leaves;
}

/* With the lock held. */
static uint32_t end_of(const struct nvs_segment *segment, uint32_t piece)
{
	uint32_t end = (piece + 1) * NVS_PIECE_GRANULES - segment->first;

	return end < segment->count ? end : segment->count;
}

static struct place place_of(const struct nvs_device *device, uint32_t piece)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);
	const struct nvs_segment *segment = nvs_arena_segment(arena, piece * NVS_PIECE_GRANULES);
	uint32_t begin = piece * NVS_PIECE_GRANULES - segment->first;

	return (struct place){ .base = segment->base + (uint64_t)begin * NVS_GRANULE_BYTES,
			       .bytes = (size_t)(end_of(segment, piece) - begin) *
					NVS_GRANULE_BYTES };
}

/* The first that has to be registered; false: none. */
static bool next_piece(const struct nvs_device *device, uint32_t *piece)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	for (*piece = 0; *piece < nvs_arena_pieces(arena); ++*piece)
		if (is_to_be_registered(arena, *piece))
			return true;
	return false;
}

bool nvs_pieces_left(const struct nvs_device *device)
{
	uint32_t piece;

	return next_piece(device, &piece);
}

/* Copies still work, slowly: better than not at all. */
static void give_up(struct nvs_device *device, CUresult result)
{
	struct nvs_arena *arena = nvs_arena_lock(device);
	bool first = !arena->refused;

	arena->refused = true;
	nvs_arena_offer_all(arena);
	nvs_arena_unlock(&arena);
	nvs_arena_tell_room(device);
	if (first)
		nvs_log("device %d: the driver does not register host memory (error %d); swapping "
			"will be slow",
			device->ordinal, (int)result);
}

static bool register_one(struct nvs_device *device, uint32_t piece)
{
	struct place place = place_of(device, piece);
	struct nvs_segment *segment;
	struct nvs_arena *arena;
	CUresult result;

	result = NVS_CALL(cuMemHostRegister_v2, place.base, place.bytes,
			  CU_MEMHOSTREGISTER_PORTABLE);
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
		give_up(device, result);
		return false;
	}
	arena = nvs_arena_lock(device);
	arena->pieces[piece] = NVS_PIECE_REGISTERED;
	segment = nvs_arena_segment(arena, piece * NVS_PIECE_GRANULES);
	nvs_arena_offer(arena, segment, end_of(segment, piece));
	nvs_arena_unlock(&arena);
	nvs_arena_tell_room(device);
	return true;
}

bool nvs_pieces_register(struct nvs_device *device)
{
	uint32_t piece;

	return next_piece(device, &piece) && register_one(device, piece);
}

static bool next_piece_of(const struct nvs_chunk *chunk, uint32_t *piece)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(chunk->device);

	for (uint64_t i = 0; i < chunk->bytes / NVS_GRANULE_BYTES; i++) {
		*piece = chunk->granules[i] / NVS_PIECE_GRANULES;
		if (is_to_be_registered(arena, *piece))
			return true;
	}
	return false;
}

void nvs_pieces_register_of(const struct nvs_chunk *chunk)
{
	uint32_t piece;

	while (next_piece_of(chunk, &piece) && register_one(chunk->device, piece))
		;
}

void nvs_pieces_register_again(struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	for (uint32_t piece = 0; piece < nvs_arena_pieces(arena); piece++)
		if (arena->pieces[piece] == NVS_PIECE_REGISTERED)
			arena->pieces[piece] = NVS_PIECE_UNSURE;
	arena->refused = false;
}

/* Taking them back */

/* The first from there on that the driver knows; false: none before `end`. */
static bool next_known(const struct nvs_device *device, uint32_t *piece, uint32_t end)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	for (; *piece < end && *piece < nvs_arena_pieces(arena); ++*piece)
		if (arena->pieces[*piece] == NVS_PIECE_REGISTERED ||
		    arena->pieces[*piece] == NVS_PIECE_UNSURE)
			return true;
	return false;
}

bool nvs_pieces_known(const struct nvs_device *device)
{
	uint32_t piece = 0;

	return next_known(device, &piece, UINT32_MAX);
}

bool nvs_pieces_leave(const struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	return arena->leaves;
}

static void forget(struct nvs_device *device, uint32_t piece)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	arena->pieces[piece] = NVS_PIECE_UNKNOWN;
}

bool nvs_pieces_unregister(struct nvs_device *device, uint32_t piece, uint32_t end)
{
	CUresult result = CUDA_SUCCESS;

	while (result == CUDA_SUCCESS && next_known(device, &piece, end)) {
		result = NVS_CALL(cuMemHostUnregister, place_of(device, piece).base);
		/* It was registered in a context that has ended. */
		if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
			result = CUDA_SUCCESS;
		if (result == CUDA_SUCCESS)
			forget(device, piece);
	}
	if (result != CUDA_SUCCESS)
		nvs_debug("device %d: the driver does not let go of host memory (error %d)",
			  device->ordinal, (int)result);
	return result == CUDA_SUCCESS;
}

void nvs_pieces_have_left(struct nvs_device *device)
{
	struct nvs_arena *arena NVS_ENDS(nvs_arena_unlock) = nvs_arena_lock(device);

	arena->leaves = false;
}

static void take_back(struct nvs_device *device)
{
	struct nvs_arena *arena;

	if (!nvs_pieces_known(device))
		return;
	arena = nvs_arena_lock(device);
	arena->leaves = true;
	nvs_arena_unlock(&arena);
	nvs_room_changed(device);
}

void nvs_pieces_take_back(void)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		take_back(device);
}

bool nvs_pieces_leaving(void)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (nvs_pieces_leave(device))
			return true;
	return false;
}
