/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools. A pool is charged with what its allocations take, or with what it keeps for the
 * next ones if that is more: a pool gives memory back at the next synchronization, down to its
 * release threshold.
 */
#pragma once

#include "cuda/abi.h"
#include "memory/account.h"

struct nvs_device;
struct nvs_pool;

/*
 * The record of a pool of device memory, which `sample` was allocated from, to be given to
 * nvs_pool_charge; NULL: not of a device, or there is no host memory.
 */
struct nvs_pool *nvs_pool_use(CUmemoryPool handle, CUdeviceptr sample);
/*
 * Enters an allocation of the pool in the book and charges the pool, in place of the reservation on
 * `reserved_on`.
 */
void nvs_pool_charge(struct nvs_pool *pool, struct nvs_entry *entry, struct nvs_device *reserved_on,
		     uint64_t reserved);
/* An allocation of the pool left the book. */
void nvs_pool_discharge(const struct nvs_entry *entry);
/* Its threshold changed or it was trimmed: asks the driver anew. */
void nvs_pool_changed(CUmemoryPool handle);
/* What it kept is gone; what was allocated from it remains until it is freed. */
void nvs_pool_destroyed(CUmemoryPool handle);
/* In a forked child. */
void nvs_pools_forked(void);
