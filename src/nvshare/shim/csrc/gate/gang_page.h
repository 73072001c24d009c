/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages that a device's client shares with the other members of its gang (protocol/gang.h). The
 * client's thread brings and takes them; a drain keeps the one that was there when it was asked
 * for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/gang.h"

struct nvs_device;

/* One membership. Belongs to the client's thread, but to the worker between begin and end. */
struct nvs_gang {
	struct nvs_gang_page *page;
	uint64_t page_bytes;
	uint32_t slot, slots;
	uint64_t base;		       /* submissions before those that are counted */
	bool uneven;		       /* as the last leader, if it led: struct nvs_lead */
	struct nvs_gang_status status; /* as it is in the page */
};

/* For the client's thread. */

/*
 * The device is one of a gang, by this file, which stays the caller's; false: no scheduler would
 * send that, or there is no memory for it, and nothing changes.
 */
bool nvs_gang_enter(struct nvs_device *device, int file, uint64_t page_bytes, uint32_t slot,
		    uint32_t slots);
/* It is one of none. */
void nvs_gang_leave(struct nvs_device *device);
/* The lock is held: from here on the others' kernels may wait for those of this device. */
void nvs_gang_runs(struct nvs_device *device);
/* The next drain goes by the page of now, whatever comes before it begins. */
void nvs_gang_bind(struct nvs_device *device);

/* For the worker. */

/* NULL: the drain that was asked for is of no gang. */
struct nvs_gang *nvs_gang_begin(const struct nvs_device *device);
/* `completed`: the lock is given back. */
void nvs_gang_end(struct nvs_device *device, bool completed);
/* Others than this one take part in what happens, as far as the page says. */
bool nvs_gang_has_others(const struct nvs_gang *gang);
/* A bit for each slot whose client is not gone. */
uint64_t nvs_gang_present(const struct nvs_gang *gang);
/* Says `gang->status`, with a new version. */
void nvs_gang_say(struct nvs_gang *gang);
/*
 * Who may not have heard yet that it runs does so, too. False: it is being written; `*out` is as it
 * was read earlier, or zero but for that.
 */
bool nvs_gang_status(const struct nvs_gang *gang, uint32_t slot, struct nvs_gang_status *out);
bool nvs_gang_command(const struct nvs_gang *gang, uint32_t slot, struct nvs_gang_command *out);
void nvs_gang_order(struct nvs_gang *gang, uint32_t slot, const struct nvs_gang_command *command);

/* In a forked child. */
void nvs_gangs_forked(void);
