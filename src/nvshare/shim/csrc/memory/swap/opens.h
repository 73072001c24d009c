/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes that this one has mapped (CUDA IPC). It is theirs: it stays where it
 * is, it counts for them, and it lives as long as it is mapped here, whatever they do.
 */
#pragma once

#include <stdbool.h>

#include "cuda/abi.h"
#include "memory/swap/shared.h"

struct nvs_device;

/*
 * Maps what a handle of ours is for, for the device of the current context; of one that is mapped
 * already the same address. Waits for the scheduler and for the process that gave it, with a limit;
 * the caller holds no lock and no mark. What it can't have is said in the log.
 */
CUresult nvs_open_map(const struct nvs_shared_handle *handle, CUdeviceptr *pointer);
/* Once less; unmapped after the last. False: nothing of this was mapped there. */
bool nvs_open_close(CUdeviceptr pointer, CUresult *result);
/* The devices that may reach the device's plain memory have changed. */
void nvs_opens_allow(const struct nvs_device *device);

/* In a forked child, with nvs_files_lock held: nothing of it is the child's. */
void nvs_opens_forked(void);
