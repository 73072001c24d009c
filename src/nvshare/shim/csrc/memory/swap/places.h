/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks of a device by place: lists and sums. The caller's lock protects them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memory/swap/chunk.h"

struct nvs_chunk_list {
	struct nvs_chunk *first, *last;
};

/* All zero: none. */
struct nvs_places {
	/*
	 * On the device, and may move. A chunk that is clean comes in at the front, any other at
	 * the end; and all of them are written, as far as is known, when something is submitted: so
	 * those that are clean are all in front.
	 */
	struct nvs_chunk_list here;
	struct nvs_chunk_list out; /* first in, first out */
	uint64_t resident;	   /* also what is MOVING */
	uint64_t out_bytes;
	uint64_t swapped_bytes; /* whose contents only the host copy has: also what comes in */
	uint64_t quiet_at; /* submissions when the device was last known to have nothing to do */
};

/* Submissions of this process to all its devices. */
uint64_t nvs_chunks_submissions(void);
bool nvs_chunk_is_out(const struct nvs_chunk *chunk);
/* Leaves without a copy: either it has no contents or the host copy has them. */
bool nvs_chunk_is_clean(const struct nvs_chunk *chunk);

/* A chunk that is in no place yet, and the opposite of it. */
void nvs_places_put(struct nvs_places *places, struct nvs_chunk *chunk, int place);
void nvs_places_remove(struct nvs_places *places, struct nvs_chunk *chunk);
/* One that is here or out is MOVING, and the opposite of it. */
void nvs_places_lift(struct nvs_places *places, struct nvs_chunk *chunk);
void nvs_places_set_down(struct nvs_places *places, struct nvs_chunk *chunk, int place);
/* One that is here will stay: its first pin. */
void nvs_places_pin(struct nvs_places *places, struct nvs_chunk *chunk);

/*
 * What should leave next, as nvs_chunk_begin_out says. NULL: none; `entered`: but one that somebody
 * works on.
 */
struct nvs_chunk *nvs_places_find_here(const struct nvs_places *places, uint64_t host_bytes,
				       bool *entered);
/* What should come in next, of at most so many bytes. */
struct nvs_chunk *nvs_places_find_out(const struct nvs_places *places, uint64_t most_bytes,
				      bool *entered);

/* The gate is closed, and the device has nothing to do. */
void nvs_places_quiet(struct nvs_places *places);
/*
 * `clean_at` of a new chunk. While something runs that was submitted before, somebody may tell it
 * of the new memory without a submission: then it may have contents at once.
 */
uint64_t nvs_places_fresh(const struct nvs_places *places);
