/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account's book: what this process has allocated, by handle. It knows nothing of CUDA. Any
 * thread may call; a function takes one short lock of its own at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* cdef begin */
/* Handles of different kinds may have equal numbers. */
enum nvs_entry_kind {
	NVS_ENTRY_POINTER = 0, /* key: device pointer */
	NVS_ENTRY_ARRAY = 1,   /* key: CUarray */
	NVS_ENTRY_MIPMAP = 2,  /* key: CUmipmappedArray */
	/*
	 * key: CUmemGenericAllocationHandle; `owner`: its block; `holds`: references to the handle
	 */
	NVS_ENTRY_HANDLE = 3,
	/* key: a number of ours; `holds`: references to handles of it, and mappings */
	NVS_ENTRY_BLOCK = 4,
	/* key: address; `bytes`: length; `owner`: its block, 0 for one that is not ours */
	NVS_ENTRY_MAPPING = 5,
	NVS_ENTRY_LEAVING = 6, /* a mapping while the driver unmaps it */
};

struct nvs_entry {
	int kind;   /* enum nvs_entry_kind */
	int device; /* ordinal */
	uint64_t key;
	uint64_t bytes; /* charged */
	uint64_t owner;
	void *context;	/* that it ends with; NULL: none */
	void *pool;	/* that it is charged to; NULL: it is charged by itself */
	bool plain;	/* served by the backend */
	uint32_t holds; /* HANDLE, BLOCK */
};

/*
 * A copy of the entry is kept. False: no host memory, nothing was changed. An older entry of the
 * same key is replaced.
 */
bool nvs_account_add(const struct nvs_entry *entry);
/* Removes an entry; of several calls for one only one returns true. */
bool nvs_account_take(int kind, uint64_t key, struct nvs_entry *taken);
bool nvs_account_find(int kind, uint64_t key, struct nvs_entry *found);
/*
 * Adds to `holds` and removes the entry when nothing holds it any more; `changed` is the entry as
 * it then was. False: there is none, or it would be held less than not at all.
 */
bool nvs_account_hold(int kind, uint64_t key, int change, struct nvs_entry *changed);
/* Removes every entry of the context and then calls `gone` for it, without a lock. */
void nvs_account_sweep(const void *context, void (*gone)(const struct nvs_entry *entry));
/* Forgets everything; for a forked child, in which nobody else runs. */
void nvs_account_forget(void);
/* cdef end */
