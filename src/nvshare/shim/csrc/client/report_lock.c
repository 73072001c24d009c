/* SPDX-License-Identifier: Apache-2.0 */
/* Puts into the report what the lock's state says. Called by the client's thread only. No state. */
#include "client/report_lock.h"

#include "gate/device.h"
#include "gate/marks.h"
#include "memory/memory.h"
#include "process/report.h"

static uint32_t flags_of(const struct nvs_lock_state *state)
{
	uint32_t flags = 0;

	if (state->link == NVS_LINK_UP)
		flags |= NVS_REPORT_REGISTERED;
	if (state->refused)
		flags |= NVS_REPORT_REFUSED;
	if (state->lock == NVS_LOCK_HOLDING && !state->grant)
		flags |= NVS_REPORT_UNLOCKED;
	if (state->in_gang)
		flags |= NVS_REPORT_IN_GANG;
	return flags;
}

void nvs_report_lock(const struct nvs_device *device, const struct nvs_lock_state *state,
		     int before)
{
	struct nvs_report_device *report = nvs_report_device(device->ordinal);
	int now = state->lock;

	if (!report)
		return;
	__atomic_fetch_or(&report->flags, flags_of(state), __ATOMIC_RELAXED);
	/* By then it is chosen: choosing asks the driver, which this thread must not. */
	if (state->link == NVS_LINK_UP) {
		report->backend = (uint32_t)nvs_memory_wire_backend(device);
		report->swaps = nvs_memory_swaps(device);
	}
	nvs_marks_report(device);
	report->waits += now == NVS_LOCK_WAITING && before != NVS_LOCK_WAITING;
	report->turns +=
		now == NVS_LOCK_HOLDING && (before == NVS_LOCK_IDLE || before == NVS_LOCK_WAITING);
	report->given_back +=
		before == NVS_LOCK_DRAINING && (now == NVS_LOCK_IDLE || now == NVS_LOCK_WAITING);
}
