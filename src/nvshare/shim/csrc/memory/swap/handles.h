/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of the program's own virtual memory that may move. What the program gets from cuMemCreate
 * is a number of ours, behind which there are chunks: the driver's handles come and go with the
 * device memory. A number has the form of none that a driver gives, and never comes back. Any
 * thread may call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"

struct nvs_device;
struct nvs_run;

/* All of it but the counts stays as it was made; for whoever holds it. */
struct nvs_handle {
	CUmemGenericAllocationHandle number;
	struct nvs_device *device;
	uint64_t bytes;
	CUmemAllocationProp_v1 prop;
	/* Owned by handles.c. */
	unsigned int owned; /* how often the program has it: cuMemCreate, cuMemRetain... */
	unsigned int holds; /* by mappings, and by calls that work with it */
	/* Chunks of NVS_CHUNK_BYTES but for the last; or one of any size. */
	struct nvs_run *run;
};

/*
 * Whether cuMemCreate with these arguments, of a device, gives memory that may move. Everything
 * else is the driver's, with its answer: what is wrong, and what has to stay where it is.
 */
bool nvs_handle_may_move(const CUmemAllocationProp_v1 *prop, size_t bytes,
			 unsigned long long flags);
/* Memory on the device that the properties name, with the room that the scheduler gives. */
CUresult nvs_handle_create(struct nvs_device *device, size_t bytes,
			   const CUmemAllocationProp_v1 *prop,
			   CUmemGenericAllocationHandle *number);
/* The number has the form of ours, whether the handle still is or not: nothing for the driver. */
bool nvs_handle_has_form(CUmemGenericAllocationHandle number);
/* One of ours: held until nvs_handle_put. NULL: it is none, or not any more. */
struct nvs_handle *nvs_handle_get(CUmemGenericAllocationHandle number);
/* Once more, of one that is held. */
void nvs_handle_hold(struct nvs_handle *handle);
void nvs_handle_put(struct nvs_handle *handle);
/* The program has a held handle once more, or once less; false: it does not have it. */
void nvs_handle_own(struct nvs_handle *handle);
bool nvs_handle_disown(struct nvs_handle *handle);

/* In a forked child. */
void nvs_handles_forked(void);
