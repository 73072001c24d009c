/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena of a device in a file, while its process sleeps: what it has is written to a file that
 * the scheduler opened and gave, its memory is let go, and it is read again into memory that the
 * scheduler gives before it wakes the process. Each granule has a checksum, made before it is
 * written and looked at when it is read.
 *
 * For the client of the device, but for nvs_stores_hold. Threads of its own write and read, and
 * have NVS_NEWS_STORE told to the clients of all devices when they have ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/files.h"

struct nvs_device;

enum nvs_store_stage {
	NVS_STORE_MEMORY = 0, /* memory has it */
	NVS_STORE_WRITING,    /* memory has it still */
	NVS_STORE_FREEING,    /* the file has it, and memory is let go */
	NVS_STORE_FILE,	      /* the file has it; some memory may have been given, and be read */
	NVS_STORE_READING,    /* all memory was given */
};

/* How what was begun has ended. */
enum nvs_store_end {
	NVS_STORE_NO_END = 0,
	NVS_STORE_STORED,
	NVS_STORE_NOT_STORED, /* memory has it as before */
	NVS_STORE_LOADED,
	NVS_STORE_LOST /* nobody has it any more */
};

enum nvs_store_stage nvs_store_stage(const struct nvs_device *device);
/*
 * Takes the file and begins to write. False: it is no empty file. `why` it does not begin, and
 * memory has all as before; NULL: it does.
 */
bool nvs_store_begin(struct nvs_device *device, struct nvs_file *file, const char **why);
/* Who wants what memory has need not wait until all is written: memory keeps it, if it still can.
 */
void nvs_store_cancel(const struct nvs_device *device);
/*
 * Memory came while the file has it, and what belongs there is read; the descriptor stays the
 * caller's. False: it is none of that size, or more than there was.
 */
bool nvs_store_give(struct nvs_device *device, int descriptor, uint64_t bytes);
/*
 * Who gave is gone before all had come: what was given is let go, as soon as nothing is read into
 * it.
 */
void nvs_store_let_go(struct nvs_device *device);
/* What has ended since the last call, and then `why` it is not what was wanted. */
enum nvs_store_end nvs_store_ended(struct nvs_device *device, char *why, size_t size);

/* Memory does not have all of what the arenas have, or is just being written; any thread. */
bool nvs_stores_hold(void);
/* In a forked child, which has no part in any of it. With nvs_files_lock held. */
void nvs_stores_forked(void);
