/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers' threads. No lock: a worker sleeps on its `jobs`; what it says of a look is written
 * before it tells, and read before the next look is asked for. A job is done inside the door: who
 * drains is not asleep. A forked child has no worker, and its clients' records are filled anew.
 */
#include "client/worker.h"

#include <stddef.h>

#include "gate/door.h"
#include "gate/drain.h"
#include "gate/marks.h"
#include "process/futex.h"
#include "process/thread.h"

/*
 * The count is read first: what is submitted while the look goes on must make the next count
 * differ, although the look may not have waited for it. Who still waits at the gate, which may have
 * opened just now, is about to submit.
 */
static void look(struct nvs_worker *worker)
{
	worker->submissions = nvs_marks_submissions(worker->device);
	worker->completed =
		nvs_gate_wait_idle(worker->device, worker->submissions, &worker->jobs) &&
		!atomic_load(&worker->device->gate.waiting);
}

static void stepping(void *argument)
{
	struct nvs_worker *worker = argument;

	worker->tell(worker, NVS_REPORT_STEPPING);
}

/*
 * Inside the door, which is left before anything is told: who hears that all is done may close it.
 */
static void do_jobs(struct nvs_worker *worker)
{
	unsigned int jobs = atomic_exchange(&worker->jobs, 0);
	bool drained = false;

	if (jobs & NVS_JOB_DRAIN)
		drained = nvs_gate_drain(worker->device, stepping, worker);
	else if (jobs & NVS_JOB_LOOK)
		look(worker);
	nvs_door_leave();
	if (jobs & NVS_JOB_DRAIN)
		worker->tell(worker, drained ? NVS_REPORT_DRAINED : NVS_REPORT_PUT_OFF);
	else if (jobs & NVS_JOB_LOOK && !(atomic_load(&worker->jobs) & NVS_JOB_DRAIN))
		worker->tell(worker, NVS_REPORT_LOOKED);
}

static void *run(void *argument)
{
	struct nvs_worker *worker = argument;

	for (;;) {
		if (!atomic_load(&worker->jobs))
			nvs_futex_sleep(&worker->jobs, 0, UINT64_MAX);
		if (!nvs_door_wait())
			return NULL;
		do_jobs(worker);
	}
}

static bool start_thread(struct nvs_worker *worker)
{
	if (!worker->running)
		worker->running = nvs_thread_create(run, worker);
	return worker->running;
}

void nvs_worker_ask(struct nvs_worker *worker, enum nvs_job job)
{
	atomic_fetch_or(&worker->jobs, job);
	if (start_thread(worker)) {
		nvs_futex_wake(&worker->jobs, 1);
	} else if (nvs_door_try()) {
		do_jobs(worker);
	}
}

void nvs_worker_spare(struct nvs_worker *worker, enum nvs_job job)
{
	/* Nothing of this turn was submitted: who does not wait for its memory either needs none.
	 */
	if (job == NVS_JOB_LOOK) {
		worker->submissions = nvs_marks_submissions(worker->device);
		worker->completed = !atomic_load(&worker->device->gate.waiting);
	}
	worker->tell(worker, job == NVS_JOB_LOOK ? NVS_REPORT_LOOKED : NVS_REPORT_DRAINED);
}
