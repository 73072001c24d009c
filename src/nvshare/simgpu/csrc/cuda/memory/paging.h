/* SPDX-License-Identifier: Apache-2.0 */
/* Where managed memory is, and what it costs to bring it to a device. */
#pragma once

#include "device/bus.h"
#include "memory/range.h"

/* A piece of a managed range that moves as a whole. */
struct sim_block {
	struct sim_block *before; /* among those of this process that are on the device */
	struct sim_block *behind;
	uint64_t bytes;
	int device;    /* that it is on; -1: none */
	bool has_been; /* on a device: it has contents that have to move */
};

/* What has to move over a device's bus before an operation can go on. */
struct sim_paging {
	uint64_t in;
	uint64_t out;
};

void sim_paging_begin_locked(struct sim_range *range);
/* Brings what is managed in [address, end) to a device; what is not does not matter. */
struct sim_paging sim_paging_touch_locked(int device, uint64_t address, uint64_t end);
/* Sends it to the host; returns how many bytes left the device with the number *device. */
struct sim_paging sim_paging_leave_locked(uint64_t address, uint64_t end, int *device);
/* Takes the time of it, without the lock. */
void sim_paging_wait(int device, struct sim_paging paging, enum sim_cargo cargo);
