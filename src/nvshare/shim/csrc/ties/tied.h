/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of this process is tied to others, by the handle that the program knows it by: so that the
 * tie ends with it. Any thread may call; a function takes one short lock of its own at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/wire.h"

struct nvs_device;

/* Handles of different kinds may have equal numbers. */
enum nvs_tied_kind {
	NVS_TIED_COMMUNICATOR = 0,
	NVS_TIED_GIVEN_MEMORY = 1, /* device pointer; others may open the memory */
	NVS_TIED_OPENED_MEMORY = 2,
	NVS_TIED_EVENT = 3, /* given or opened */
	NVS_TIED_KINDS = 4
};

/* How communicators are made of a communicator, each counted for itself. */
enum nvs_tied_child {
	NVS_TIED_SPLIT = 0,
	NVS_TIED_SHRUNK = 1,
	NVS_TIED_GROWN = 2
};

struct nvs_tied {
	int kind; /* enum nvs_tied_kind */
	uint64_t handle;
	struct nvs_device *device;
	uint32_t tie; /* enum nvs_wire_tie */
	uint32_t size;
	uint8_t key[NVS_WIRE_KEY_BYTES];
	uint32_t children[3]; /* of enum nvs_tied_child: how many were made */
	struct nvs_tied *next;
};

/*
 * Notes a tie that was made (nvs_tie). A handle may have several. Without memory for the note the
 * tie lasts as long as the process.
 */
void nvs_tied_add(const struct nvs_tied *tied);
/* The handle has this tie already. */
bool nvs_tied_has(int kind, uint64_t handle, const uint8_t key[NVS_WIRE_KEY_BYTES]);
/*
 * Takes a handle's ties out of the notes before the call that ends it, so that another one of the
 * same number can come; the newest one only, or all. NULL: it has none.
 */
struct nvs_tied *nvs_tied_take(int kind, uint64_t handle, bool all);
/* The handle has ended, and so do the ties that were taken; or (false) it has not. */
void nvs_tied_end(struct nvs_tied *taken, bool ended);
/*
 * Another communicator is made of one: `parent` is its oldest tie, with the child counted. False:
 * it has none.
 */
bool nvs_tied_child(uint64_t handle, enum nvs_tied_child how, struct nvs_tied *parent);
/* In a forked child. */
void nvs_tied_forked(void);
