/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each device's account adds up to: its footprint, and the reservations of calls that have not
 * returned. Every allocating call reserves first, and then commits what it got, which may be
 * nothing. Any thread may call; a function takes one short lock of its own.
 */
#ifndef NVSHARE_FOOTPRINT_H
#define NVSHARE_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

struct nvs_device;

/*
 * From now on the scheduler is asked for the device's room (room.h): a reservation may wait, and
 * what is charged is the fixed part of the memory. Before the first of them.
 */
void nvs_footprint_ask_room(const struct nvs_device *device);
/*
 * Whether the device has so much at all, which the scheduler need not be asked; the first time that
 * it has not is logged.
 */
bool nvs_footprint_possible(struct nvs_device *device, uint64_t bytes);
/*
 * False: the footprint would grow beyond `allocatable`, or beyond what the container's limit
 * leaves; the first time that is logged.
 */
bool nvs_footprint_reserve(struct nvs_device *device, uint64_t bytes, uint64_t allocatable);
/* Takes a reservation back and changes the footprint by `charged` in one step. */
void nvs_footprint_commit(struct nvs_device *device, uint64_t reserved, int64_t charged);
/* Graphs have allocated so much on the device, as measured now. */
void nvs_footprint_set_graphs(struct nvs_device *device, uint64_t bytes);
/* In a forked child. */
void nvs_footprints_forked(void);

#endif
