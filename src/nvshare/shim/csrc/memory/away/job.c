/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the threads of jobs. A job is its owner's.
 */
#include "memory/away/job.h"

#include "memory/away/transfer.h"
#include "process/thread.h"

#define THREADS 4 /* each has a granule on its way: disks want several at once */

/* False: there is nothing, and the caller is at work no more. */
static bool take(struct nvs_job *job, uint32_t *number, bool *last)
{
	NVS_HOLD(&job->lock);

	*last = false;
	if (job->failure == NVS_TRANSFERRED && !job->cancelled && job->next < job->ready) {
		*number = job->next++;
		return true;
	}
	job->running--;
	*last = !job->running && job->whole;
	nvs_mutex_changed(&job->lock);
	return false;
}

static void *run(void *argument)
{
	struct nvs_job *job = argument;
	uint32_t number;
	bool last;

	while (take(job, &number, &last)) {
		int failure = job->work->step(job->owner, number);

		if (failure != NVS_TRANSFERRED)
			nvs_job_fail(job, failure);
	}
	if (last)
		job->work->finish(job->owner);
	return NULL;
}

void nvs_job_begin(struct nvs_job *job, const struct nvs_job_work *work, void *owner, bool final)
{
	NVS_HOLD(&job->lock);

	job->work = work;
	job->owner = owner;
	job->next = job->ready = 0;
	job->whole = false;
	job->failure = NVS_TRANSFERRED;
	job->cancelled = false;
	job->final = final;
}

void nvs_job_let(struct nvs_job *job, uint32_t ready, bool whole)
{
	uint32_t more;

	nvs_mutex_lock(&job->lock);
	job->ready = ready;
	job->whole = whole;
	more = THREADS - job->running;
	job->running = THREADS;
	nvs_mutex_unlock(&job->lock);
	while (more && nvs_thread_create(run, job))
		more--;
	if (!more)
		return;
	nvs_mutex_lock(&job->lock);
	job->running -= more - 1;
	nvs_mutex_unlock(&job->lock);
	run(job);
}

void nvs_job_fail(struct nvs_job *job, int failure)
{
	NVS_HOLD(&job->lock);

	if (job->failure == NVS_TRANSFERRED)
		job->failure = failure;
}

void nvs_job_cancel(struct nvs_job *job)
{
	NVS_HOLD(&job->lock);

	if (!job->final)
		job->cancelled = true;
}

void nvs_job_stop(struct nvs_job *job)
{
	NVS_HOLD(&job->lock);

	job->cancelled = true;
	while (job->running)
		nvs_mutex_wait(&job->lock);
}

int nvs_job_end(struct nvs_job *job)
{
	NVS_HOLD(&job->lock);

	job->final = true;
	if (job->failure == NVS_TRANSFERRED && job->cancelled)
		job->failure = NVS_TRANSFER_CANCELLED;
	return job->failure;
}
