/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A catalogue: what the blocks of a client's host memory sum up to while it sleeps, and which block
 * of a pack may have the same contents. It is a memory file that the scheduler makes, with the
 * head, and sends with the frame SUM: the client writes the entries, one for each of its blocks
 * that hold the only copy of something, in the order of its host memory. The scheduler writes
 * `block` of each before it sends PACK or DEDUP.
 *
 * A sum says where to look and no more: whoever lets go of memory has compared all of it. Numbers
 * are in the machine's byte order. cffi reads the part between the two "cdef" marks, so that part
 * holds plain declarations only.
 */
#ifndef NVSHARE_CATALOGUE_H
#define NVSHARE_CATALOGUE_H

#include <stdint.h>

/* cdef begin */
#define NVS_CATALOGUE_KEYS 8
#define NVS_CATALOGUE_BLOCK_BYTES 0x200000
#define NVS_CATALOGUE_NO_BLOCK 0xFFFFFFFF

struct nvs_catalogue_head {
	uint64_t key[NVS_CATALOGUE_KEYS]; /* of the sums: the same for all of one owner */
	uint32_t room;			  /* for so many entries, which follow */
	uint32_t unused;
};

struct nvs_catalogue_entry {
	uint64_t sum;
	uint32_t block; /* of the pack, from 0; NVS_CATALOGUE_NO_BLOCK: none */
	uint32_t unused;
};
/* cdef end */

_Static_assert(sizeof(struct nvs_catalogue_head) == 72, "the entries follow without padding");
_Static_assert(sizeof(struct nvs_catalogue_entry) == 16, "so they do behind each other");

#endif
