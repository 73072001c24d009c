/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of a client: a thread that makes the driver calls that may wait, so that the client's
 * thread never does.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nvs_device;

/* What it can be asked for. */
enum nvs_job {
	NVS_JOB_LOOK = 1, /* is the device idle? NVS_REPORT_LOOKED, unless a drain is asked for */
	NVS_JOB_DRAIN = 2 /* close the gate; NVS_REPORT_DRAINED or NVS_REPORT_PUT_OFF */
};

/* What it says. Of several that were said since somebody listened, the lower came first. */
enum nvs_worker_report {
	NVS_REPORT_LOOKED = 1,
	NVS_REPORT_STEPPING = 2, /* the drain goes on, step by step */
	NVS_REPORT_DRAINED = 4,
	NVS_REPORT_PUT_OFF = 8
};

struct nvs_worker {
	struct nvs_device *device;
	/* Called in the worker. */
	void (*tell)(struct nvs_worker *worker, enum nvs_worker_report report);
	bool running;		   /* the thread was created; of who asks */
	_Atomic unsigned int jobs; /* bits of nvs_job; futex word */
	/* Of the last look, from NVS_REPORT_LOOKED until the next one is asked for. */
	uint64_t submissions; /* the count when it began */
	bool completed;	      /* all of them, and nothing came since */
};

/*
 * One job of each kind at a time. Without a thread, which is made when it is first needed, the job
 * is done in this call: late is better than never.
 */
void nvs_worker_ask(struct nvs_worker *worker, enum nvs_job job);
/* Tells in a job's place, while nothing can run: not idle; drained. */
void nvs_worker_spare(struct nvs_worker *worker, enum nvs_job job);
