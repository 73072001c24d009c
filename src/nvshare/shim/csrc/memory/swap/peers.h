/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of other devices to plain memory. The driver gives it by context; what is made of chunks
 * it takes for the program's own virtual memory, where each mapping has to be told.
 */
#pragma once

#include <stdint.h>

#include "cuda/abi.h"

struct nvs_device;

/*
 * One more context of `user`, or (`change` -1) one less, may reach what contexts of `owner` have
 * and will have.
 */
CUresult nvs_peers_change(struct nvs_device *owner, const struct nvs_device *user, int change);
/* Devices, a bit for each ordinal, may use memory of `owner` that moves, until the process ends. */
void nvs_peers_reach(const struct nvs_device *owner, uint64_t users);
/* In a forked child. */
void nvs_peers_forked(void);
