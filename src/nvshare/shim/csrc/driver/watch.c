/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what is looked for, and how many objects had been loaded at the last look. No lock: threads
 * that look at the same time find the same.
 */
#include "driver/watch.h"

#include <stdint.h>

#include "driver/apart.h"
#include "driver/driver.h"
#include "driver/nccl.h"
#include "driver/symbols.h"
#include "driver/uses.h"
#include "process/ends.h"
#include "process/notices.h"
#include "process/report.h"
#include "process/sleepless.h"

_Atomic int nvs_watching;

static _Atomic bool for_driver, for_second_driver, for_nccl;
static _Atomic bool incomplete; /* not everybody finds our entries */
static _Atomic uint64_t looked_at;

static bool look_for_driver(void)
{
	struct nvs_report *report;

	if (!nvs_driver_redirect())
		return false;
	if (atomic_load(&incomplete))
		nvs_notice(NVS_NOTICE_NOT_REDIRECTED);
	report = nvs_report();
	if (report)
		report->deep = 1;
	return true;
}

void nvs_watch_for_driver(bool complete)
{
	if (!complete) {
		nvs_sleepless("not all of its calls of the driver are seen");
		atomic_store(&incomplete, true);
	}
	if (!look_for_driver())
		atomic_store(&for_driver, true);
	nvs_nccl_redirect();
	atomic_store(&for_nccl, true);
	atomic_store(&nvs_watching, true);
}

void nvs_watch_for_second_driver(void)
{
	atomic_store(&for_second_driver, true);
	atomic_store(&nvs_watching, true);
}

void nvs_watch_look(void)
{
	uint64_t added;
	NVS_KEEP_ERRNO;

	nvs_uses_look();
	if (!atomic_load_explicit(&nvs_watching, memory_order_relaxed))
		return;
	added = nvs_objects_added();
	if (atomic_exchange(&looked_at, added) == added)
		return;
	if (atomic_load(&for_driver) && look_for_driver())
		atomic_store(&for_driver, false);
	if (atomic_load(&for_nccl))
		nvs_nccl_redirect();
	if (atomic_load(&for_second_driver) && nvs_driver_is_elsewhere()) {
		nvs_notice(NVS_NOTICE_SECOND_DRIVER);
		nvs_sleepless("it has a second driver, whose calls are not seen");
		atomic_store(&for_second_driver, false);
	}
}
