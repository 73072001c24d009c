/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what was submitted to a device has completed, in all contexts of this process; and what
 * was submitted to those that may use its memory, which passed its gate as well.
 */
#pragma once

#include <stdbool.h>

struct nvs_device;

enum nvs_completion {
	NVS_COMPLETION_DONE = 0,
	NVS_COMPLETION_RUNS = 1,
	NVS_COMPLETION_UNKNOWN = 2 /* a context may have ended meanwhile: record again */
};

/*
 * Marks the end of all that was submitted to the device so far. No capture may be going on: the
 * driver would end it. A driver older than 555 has no events of a whole context; there this waits
 * until all has completed.
 */
void nvs_contexts_record(const struct nvs_device *device);
/*
 * Whether what was marked has completed, for a thread in relaxed capture mode; a capture may be
 * going on.
 */
enum nvs_completion nvs_contexts_query(const struct nvs_device *device);
/*
 * Waits until all of these contexts have completed what was submitted. No capture may be going on.
 */
void nvs_contexts_synchronize(const struct nvs_device *device);

/*
 * Whether the process has a context of the device, in which something could be submitted. The
 * caller has no mark set.
 */
bool nvs_contexts_alive(const struct nvs_device *device);
