/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover of a device: a thread that brings chunks out and in as the room says, and registers the
 * arena while nothing else is to do.
 */
#pragma once

#include <stdint.h>

struct nvs_device;

/* Starts it, if it does not run. Where no thread can be had the next call tries again. */
void nvs_mover_start(struct nvs_device *device);
/* Of all that ever left, what was not copied, because the host copy had it already. */
uint64_t nvs_mover_spared_bytes(const struct nvs_device *device);
/* In a forked child, which has none. */
void nvs_movers_forked(void);
