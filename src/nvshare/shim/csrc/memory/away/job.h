/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that take one number after the other, and do with it what the owner says: what is done
 * with host memory while the process sleeps. They exist while there is something to do.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "process/mutex.h"

struct nvs_job_work {
	/* Does it with one number, in any thread of the job's; how it failed (transfer.h). */
	int (*step)(void *owner, uint32_t number);
	/*
	 * In the last of the threads, once all is done, or nothing more is: nobody is at work then,
	 * and the job may be begun anew.
	 */
	void (*finish)(void *owner);
};

struct nvs_job {
	struct nvs_mutex lock; /* protects all of it; not held while anything is done */
	const struct nvs_job_work *work;
	void *owner;
	uint32_t next, ready; /* numbers before `ready` can be taken */
	bool whole;	      /* there are no others */
	uint32_t running;     /* threads that are at work */
	int failure;	      /* the first */
	bool cancelled, final;
};

#define NVS_NO_JOB { .lock = NVS_MUTEX(NVS_ORDER_STORE) }

/* Nothing of it is at work. `final`: nvs_job_cancel does nothing to it. */
void nvs_job_begin(struct nvs_job *job, const struct nvs_job_work *work, void *owner, bool final);
/*
 * Numbers before `ready` can be taken, from 0 on; `whole`: there will be no others. Without any
 * thread all is done in this call: late is better than never.
 */
void nvs_job_let(struct nvs_job *job, uint32_t ready, bool whole);
/* No number is taken any more, as if one had failed so; any thread. */
void nvs_job_fail(struct nvs_job *job, int failure);
/* It may end before all is done; any thread. */
void nvs_job_cancel(struct nvs_job *job);
/* The same of one that is not whole, final or not; waits until nobody is at work. */
void nvs_job_stop(struct nvs_job *job);
/* From `finish`: what became of it. It can't be cancelled from here on. */
int nvs_job_end(struct nvs_job *job);
