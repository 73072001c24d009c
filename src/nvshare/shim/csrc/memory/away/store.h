/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with the arena of a device while its process sleeps: all of it goes into a file
 * (store_file.h), or blocks of it are kept in a pack that others have, too (pack.h). Its memory is
 * let go, and what it had comes back into memory that the scheduler gives before it wakes the
 * process.
 *
 * For the client of the device, but for nvs_stores_hold and nvs_store_cancel. Threads of its own
 * do it, and have NVS_NEWS_STORE told to the clients of all devices when they have ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvs_device;
struct nvs_file;
struct nvs_job_work;
struct nvs_store;

enum nvs_store_stage {
	NVS_STORE_MEMORY = 0, /* memory has it */
	NVS_STORE_BUSY,	      /* memory has it still: it is written, or looked at */
	NVS_STORE_FREEING,    /* the file or pack has it, and memory is let go */
	NVS_STORE_AWAY,	      /* that has it; some memory may have been given, and be read into */
	NVS_STORE_READING,    /* all memory was given */
};

/* How what was begun has ended. */
enum nvs_store_end {
	NVS_STORE_NO_END = 0,
	NVS_STORE_GONE, /* it is away */
	NVS_STORE_KEPT, /* memory has it as before */
	NVS_STORE_LOADED,
	NVS_STORE_LOST /* nobody has it any more */
};

enum nvs_store_stage nvs_store_stage(const struct nvs_device *device);
/*
 * Who wants what memory has need not wait until all is done: memory keeps it, if it still can.
 */
void nvs_store_cancel(const struct nvs_device *device);
/*
 * Memory came for what is away, and what belongs there is read; the descriptor stays the caller's.
 * False: it is none of that size, or more than there was.
 */
bool nvs_store_give(struct nvs_device *device, int descriptor, uint64_t bytes);
/*
 * Who gave is gone before all had come: what was given is let go, as soon as nothing is read into
 * it.
 */
void nvs_store_let_go(struct nvs_device *device);
/* What has ended since the last call, and then `why` it is not what was wanted; or nothing. */
enum nvs_store_end nvs_store_ended(struct nvs_device *device, char *why, size_t size);

/* Memory does not have all of what the arenas have, or is just being looked at; any thread. */
bool nvs_stores_hold(void);
/* In a forked child, which has no part in any of it. With nvs_files_lock held. */
void nvs_stores_forked(void);

/* For store_file.c and pack.c, with store_record.h. */

struct nvs_store *nvs_store_of(const struct nvs_device *device);
/*
 * What the arena of the device has becomes `contents`, and what was noted before is forgotten. Why
 * it can't; NULL: it is so.
 */
const char *nvs_store_prepare(struct nvs_store *store, struct nvs_device *device);
void nvs_store_forget(struct nvs_store *store);
/* `file` becomes what `whose` was, which has none any more. */
void nvs_store_take_file(struct nvs_file *file, struct nvs_file *whose);
/* Begins to do this with `count` numbers; memory has all meanwhile. */
void nvs_store_begin(struct nvs_store *store, const struct nvs_job_work *work, uint32_t count);
/*
 * From the end of that: begins to let go of memory. False: that was cancelled, or has failed, and
 * memory has all.
 */
bool nvs_store_begin_freeing(struct nvs_store *store, const struct nvs_job_work *work,
			     uint32_t count);
/* The last that a thread does with the store. */
void nvs_store_tell(struct nvs_store *store, enum nvs_store_end end);
/* How reading has ended. */
enum nvs_store_end nvs_store_read(struct nvs_store *store);
