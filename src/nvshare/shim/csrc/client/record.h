/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a client, for clients.c, which makes it, and client.c, whose thread it belongs to.
 */
#ifndef NVSHARE_RECORD_H
#define NVSHARE_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/lock_types.h"
#include "client/memory_frames.h"
#include "client/pending.h"
#include "client/progress_frames.h"
#include "client/share_frames.h"
#include "client/worker.h"

struct nvs_device;

/* What others have to say to the thread. */
enum nvs_client_pending {
	NVS_PENDING_WANT = 1,
	NVS_PENDING_FOOTPRINT = 2,
	NVS_PENDING_NOTICE = 4,
	NVS_PENDING_ROOM = 8,
	NVS_PENDING_TIES = 16,
	NVS_PENDING_SHARED = 32,
	NVS_PENDING_REASON = 64,
	NVS_PENDING_LOST = 128,
	NVS_PENDING_SUSPECTED = 256,
	NVS_PENDING_REPORT = 0x1000 /* times a bit of nvs_report */
};

struct nvs_client {
	struct nvs_device *device; /* NULL: not started in this process */
	_Atomic bool running;	   /* the thread was created */
	struct nvs_pending pending;
	struct nvs_lock_state state;
	struct nvs_connection connection;
	struct nvs_worker worker;
	struct nvs_memory_frames memory;
	struct nvs_progress_frames progress;
	struct nvs_share_frames share;
	uint32_t notices_known; /* to the scheduler; a bit for each */
	bool lost_known;	/* to the scheduler: that the device is lost */
};

/* The thread: `client` is its argument. */
void *nvs_client_run(void *client);

#endif
