/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuIpcGetMemHandle gives for memory that swaps: 64 bytes of ours, which mean nothing to a
 * driver. Who has them may ask the scheduler for the memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cuda/abi.h"
#include "protocol/wire.h"

#define NVS_SHARED_MAGIC "nvshare\x01"
#define NVS_SHARED_MAGIC_BYTES 8

struct nvs_shared_handle {
	char magic[NVS_SHARED_MAGIC_BYTES];
	uint8_t key[NVS_WIRE_KEY_BYTES]; /* nobody can guess it */
	uint64_t bytes;			 /* of the allocation */
	uint8_t device_uuid[NVS_WIRE_UUID_BYTES];
};

_Static_assert(sizeof(struct nvs_shared_handle) == sizeof(CUipcMemHandle_v1), "it is one");

/* False: it is not of ours, but of a driver. */
static inline bool nvs_shared_read(const CUipcMemHandle_v1 *from, struct nvs_shared_handle *handle)
{
	memcpy(handle, from, sizeof(*handle));
	return !memcmp(handle->magic, NVS_SHARED_MAGIC, NVS_SHARED_MAGIC_BYTES);
}
