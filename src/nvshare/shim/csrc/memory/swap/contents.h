/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with the contents of chunks where they are, so that nothing of them crosses the link
 * (cuda/contents.h). The kernels are made at their first use, in a context that is current in all
 * calls; the key stays when that has ended, since hashes are compared with each other.
 *
 * A chunk that is hashed may be written by nobody until it has left. That is so for any chunk on
 * its way: the gate is closed, and all that was submitted has completed (mover.c). The driver may
 * wait for what runs when it makes a kernel, and then nothing does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "cuda/contents.h"
#include "memory/swap/hash.h"

struct nvs_chunk;

#define NVS_CONTENTS 4 /* at once */

struct nvs_contents {
	bool keyed;
	struct nvs_hash_key key;
	uint64_t block[NVS_HASH_LANES]; /* the factors from one block to the next */
	bool made;			/* or tried: then there are no kernels */
	CUmodule module;
	CUfunction hash, clear;
	CUstream streams[NVS_CONTENTS];
	struct nvs_hash_result *results; /* NVS_MOST_BLOCKS for each */
};

/* The context is another one: what was made is gone with the former one. */
void nvs_contents_forget(struct nvs_contents *contents);
/*
 * Submits the hash of a chunk, with the event behind it. An error: there will be none, and nothing
 * of it runs any more.
 */
CUresult nvs_contents_hash(struct nvs_contents *contents, struct nvs_chunk *chunk,
			   unsigned int slot, CUevent event);
/* After the event. */
void nvs_contents_read(const struct nvs_contents *contents, const struct nvs_chunk *chunk,
		       unsigned int slot, struct nvs_hash *hash);
/* Makes the contents zero, in a stream. */
CUresult nvs_contents_clear(struct nvs_contents *contents, struct nvs_chunk *chunk,
			    CUstream stream);
