/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's arena and its lock, for arena.c, pieces.c (what the driver knows of it), late.c (what
 * is not mapped yet) and arena_away.c (what of it has no memory).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/swap/granules.h"
#include "process/files.h"
#include "process/mutex.h"

struct nvs_chunk;
struct nvs_device;

/* The first granule is the first of a piece, so granules of two segments are never in one. */
struct nvs_segment {
	char *base;
	uint32_t first, count; /* granules */
	uint32_t offered;      /* of them: that chunks may have */
};

/* A segment that could not be mapped yet. */
struct nvs_late_segment {
	struct nvs_late_segment *next;
	struct nvs_file file;
	uint64_t bytes;
};

struct nvs_granule_owner {
	struct nvs_chunk *chunk; /* NULL: nobody's */
	bool spare;
};

/* What the driver knows of a piece. */
enum nvs_piece {
	NVS_PIECE_NONE = 0, /* there is no memory, but of a segment that may still come */
	NVS_PIECE_UNKNOWN,
	NVS_PIECE_REGISTERED,
	NVS_PIECE_UNSURE /* it was registered in a context that may have ended */
};

/* What memory a granule has. */
enum nvs_granule_memory {
	NVS_GRANULE_HERE = 0,
	NVS_GRANULE_AWAY, /* none */
	NVS_GRANULE_GIVEN /* it has some again, and what belongs there is on its way */
};

struct nvs_arena {
	struct nvs_mutex lock;
	struct nvs_segment *segments;
	size_t count;
	/* Changed with nvs_files_lock held as well: a forked child closes their files. */
	struct nvs_late_segment *late;
	struct nvs_granules granules;
	struct nvs_granule_owner *owners; /* of each granule */
	uint8_t *memory;		  /* enum nvs_granule_memory, of each granule */
	uint8_t *pieces;		  /* enum nvs_piece, of NVS_PIECE_GRANULES granules each */
	uint32_t spare;			  /* granules that are owned, and another chunk may have */
	/* Granules: of all that ever came, those that chunks could have, and that were given back.
	 */
	uint64_t received, offered, returned;
	bool refused; /* the driver registers nothing more; said so */
	bool leaves;  /* the mover is to take all back that the driver knows */
};

struct nvs_arena *nvs_arena_lock(const struct nvs_device *device);
void nvs_arena_unlock(struct nvs_arena *const *arena);
/* With the lock held: maps a segment, and notes it; false: that can't be now. */
bool nvs_arena_map(struct nvs_arena *arena, int descriptor, uint64_t bytes);
/* With the lock held. */
uint32_t nvs_arena_pieces(const struct nvs_arena *arena);
/*
 * A segment of at most so many bytes that no chunk needs, which nobody gets any granules of from
 * here on; false: there is none. It is put in again, or given back. For the mover.
 */
bool nvs_arena_take_out(const struct nvs_device *device, uint64_t most, struct nvs_segment *taken);
void nvs_arena_put_in(const struct nvs_device *device, const struct nvs_segment *taken);
void nvs_arena_give_back(struct nvs_device *device, const struct nvs_segment *taken);
/* The granules before `end` are there for chunks. */
void nvs_arena_offer(struct nvs_arena *arena, struct nvs_segment *segment, uint32_t end);
/* All can be used, though not all is registered. */
void nvs_arena_offer_all(struct nvs_arena *arena);
/* The segment that has a granule. */
struct nvs_segment *nvs_arena_segment(const struct nvs_arena *arena, uint32_t granule);
/* Where a granule is. */
char *nvs_arena_granule(const struct nvs_arena *arena, uint32_t granule);

/* With the lock given back: what is there, and what of it is offered. */
void nvs_arena_tell_room(struct nvs_device *device);
