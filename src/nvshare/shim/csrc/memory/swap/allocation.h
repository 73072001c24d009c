/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of one of the program's allocations (allocations.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

struct nvs_device;

enum nvs_allocation_kind {
	NVS_ALLOCATION_PLAIN = 0,   /* of cuMemAlloc, cuMemAllocPitch: freed by cuMemFree */
	NVS_ALLOCATION_MAPPING = 1, /* of the program's cuMemMap, of a handle that may move */
	NVS_ALLOCATION_OPENED =
		2, /* of cuIpcOpenMemHandle: memory of another process, which stays */
};

/* What is known of an allocation; a copy. */
struct nvs_allocation {
	int kind; /* enum nvs_allocation_kind */
	CUdeviceptr start;
	uint64_t bytes; /* as the program asked for */
	struct nvs_device *device;
	CUcontext context; /* that it ends with; NULL: none */
	/* The mapping that it lies in: more than the allocation itself where that is small. */
	CUdeviceptr mapping;
	uint64_t mapping_bytes;
	/* CU_POINTER_ATTRIBUTE_BUFFER_ID and _MEMORY_BLOCK_ID: of all that ever were. */
	unsigned long long id, mapping_id;
	bool sync_memops; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as the program set it */
};
