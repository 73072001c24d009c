/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations of this process that others may map (CUDA IPC): their handles, and their chunks,
 * which the scheduler asks for one by one on behalf of those others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "memory/swap/allocations.h"
#include "process/files.h"
#include "protocol/wire.h"

struct nvs_device;

/* Of a live allocation that was given out before. False: it was not. */
bool nvs_export_find(const struct nvs_allocation *allocation, CUipcMemHandle_v1 *handle);
/*
 * Of a plain allocation whose chunks are pinned. Two threads may do it for one allocation: both get
 * the same.
 */
CUresult nvs_export_add(const struct nvs_allocation *allocation, CUipcMemHandle_v1 *handle);
/* Whether this process gave it out. */
bool nvs_export_is_own(const uint8_t key[NVS_WIRE_KEY_BYTES]);
/* Allocations were freed: those that were given out are not any more. */
void nvs_exports_check(void);

/* For the client. None of these waits. */

/* The link to a scheduler that knows of this is up: all is said again; or not up any more. */
void nvs_exports_link(struct nvs_device *device, bool up);
/*
 * The next frame that is to be said, whose head is the client's; false: there is none. A descriptor
 * goes with SHARED, and is the caller's to close.
 */
bool nvs_exports_say(struct nvs_device *device, struct nvs_frame *frame,
		     struct nvs_file *descriptor);
/* ASK_SHARED came. False: more than a scheduler would ask for. */
bool nvs_exports_heard(struct nvs_device *device, const struct nvs_frame *frame);

/* In a forked child, with nvs_files_lock held: nothing of it is the child's. */
void nvs_exports_forked(void);
