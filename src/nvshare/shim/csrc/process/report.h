/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of this process for `nvshare-ctl doctor`, where somebody asked for one: otherwise each
 * of these looks at one variable and returns. Any thread may call; nothing waits, nothing fails,
 * errno is kept. Not for the way of a launch.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/report.h"

/* Somebody asked for a report. */
bool nvs_report_wanted(void);
/*
 * The report, which is made when there is none yet, also in a forked child; NULL: nobody asked for
 * one, or it can't be made.
 */
struct nvs_report *nvs_report(void);
/* A device's part of it; NULL as above. */
struct nvs_report_device *nvs_report_device(int ordinal);

/* A function or a table was found by that route: the hook, or what is the driver's. */
void nvs_report_name(const char *name, enum nvs_report_route route, bool hooked);
/* So many more bytes of a device can't be moved for that reason; fewer when negative. */
void nvs_report_bytes(int ordinal, enum nvs_report_bytes kind, int64_t change);
/* What of a device's memory can be moved, and what can't, in all. */
void nvs_report_sums(int ordinal, uint64_t movable, uint64_t fixed);
