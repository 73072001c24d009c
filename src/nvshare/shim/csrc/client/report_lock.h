/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the lock, for the report (process/report.h).
 */
#ifndef NVSHARE_REPORT_LOCK_H
#define NVSHARE_REPORT_LOCK_H

#include "client/lock_types.h"

struct nvs_device;

/* After something happened; `before` is what the lock was then (enum nvs_lock). */
void nvs_report_lock(const struct nvs_device *device, const struct nvs_lock_state *state,
		     int before);

#endif
