/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a client, for clients.c, which makes it, and client.c, whose thread it belongs to.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/lock_types.h"
#include "client/memory_frames.h"
#include "client/pending.h"
#include "client/worker.h"
#include "gate/device.h"

/* What others have to say to the thread, beside the device's news. */
enum nvs_client_pending {
	NVS_PENDING_NOTICE = NVS_NEWS_OTHERS,
	NVS_PENDING_REPORT = 0x1000 /* times a bit of nvs_worker_report */
};

/* While a scheduler watches how the work goes on. */
struct nvs_progress {
	uint32_t interval_us; /* 0: nobody watches */
	uint64_t next_at;     /* if the gate is open then */
	bool together;	      /* all hold at the same time, and are to go on so */
};

/* What is said and heard of sleep (sleep_frames.c). */
struct nvs_sleep_frames {
	bool wakeable;	    /* the scheduler can have the process woken */
	uint32_t wake_said; /* of which closing of the door; 0: of none on this connection */
	/* ASLEEP, or why not, is to be said for `request` once the driver knows no host memory. */
	bool asleep_owed;
	uint32_t request; /* 0: nobody's, it was closed at REGISTER */
	/* The frame that answers what is begun with host memory, which this connection asked for.
	 */
	uint8_t owed;	/* 0: nothing is */
	bool away_owed; /* STORED or DEDUPED, once the memory was told */
	bool opens;	/* AWAKE was heard, and memory does not have all yet */
};

struct nvs_client {
	struct nvs_device *device; /* NULL: not started in this process */
	_Atomic bool running;	   /* the thread was created */
	struct nvs_pending pending;
	struct nvs_lock_state state;
	struct nvs_connection connection;
	struct nvs_worker worker;
	struct nvs_memory_frames memory;
	struct nvs_progress progress;
	int parts_link;		/* enum nvs_parts_link */
	uint32_t notices_known; /* to the scheduler; a bit for each */
	bool lost_known;	/* to the scheduler: that the device is lost */
	/* It holds, and the gate is to open with the door (gate/door.h). */
	bool opens_with_door;
	uint32_t asked_at; /* openings of the door when the lock was asked for */
	struct nvs_sleep_frames sleep;
};

/* The thread: `client` is its argument. */
void *nvs_client_run(void *client);
