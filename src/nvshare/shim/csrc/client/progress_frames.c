/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames about progress. No state beside the record that is passed in, no lock. The counts are kept
 * anyway, by each thread that submits, and are only added up here: who is watched submits as fast
 * as who is not.
 */
#include "client/progress_frames.h"

#include <stdatomic.h>
#include <string.h>

#include "gate/device.h"
#include "gate/marks.h"

#define PROGRESS_LEVEL 3
#define LEAST_INTERVAL_US 10000u /* whatever a scheduler says */

bool nvs_progress_heard(struct nvs_progress_frames *progress, const struct nvs_lock_state *state,
			const struct nvs_frame *frame, uint64_t now)
{
	if (frame->magic != NVS_WIRE_MAGIC || frame->version != NVS_WIRE_VERSION ||
	    frame->type != NVS_WATCH || state->link != NVS_LINK_UP || state->level < PROGRESS_LEVEL)
		return false;
	progress->interval_us = frame->idle_microseconds;
	if (progress->interval_us && progress->interval_us < LEAST_INTERVAL_US)
		progress->interval_us = LEAST_INTERVAL_US;
	progress->next_at = now;
	progress->together = frame->watch.together != 0;
	return true;
}

void nvs_progress_follow(struct nvs_progress_frames *progress, const struct nvs_lock_state *state)
{
	if (state->link != NVS_LINK_UP) {
		progress->interval_us = 0;
		progress->together = false;
	}
}

uint64_t nvs_progress_deadline(const struct nvs_progress_frames *progress, bool open)
{
	return progress->interval_us && open ? progress->next_at : NVS_LOCK_NEVER;
}

bool nvs_progress_frame(struct nvs_progress_frames *progress, uint64_t now, struct nvs_frame *frame)
{
	const struct nvs_device *device = progress->device;

	if (!progress->interval_us)
		return false;
	progress->next_at = now + progress->interval_us;
	memset(frame, 0, sizeof(*frame));
	frame->magic = NVS_WIRE_MAGIC;
	frame->version = NVS_WIRE_VERSION;
	frame->type = NVS_PROGRESS;
	frame->progress.at_microseconds = now;
	frame->progress.submissions = nvs_marks_submissions(device);
	/* Those that found nothing first: whoever looks meanwhile makes no more of them than looks.
	 */
	frame->progress.empty_looks = atomic_load(&device->empty_looks);
	frame->progress.looks = atomic_load(&device->looks);
	return true;
}
