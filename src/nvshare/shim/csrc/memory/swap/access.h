/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may reach a mapping, in the driver's words and in a chunk's; and what the driver says of it,
 * which it can't be asked about what is out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cuda/abi.h"

struct nvs_access;
struct nvs_chunk;
struct nvs_device;

bool nvs_access_device_exists(int ordinal);
/* The driver's answer to descriptions of devices' accesses. */
CUresult nvs_access_check(const CUmemAccessDesc_v1 *desc, size_t count);
/* And when it is memory of that device, which not every other one can reach. */
CUresult nvs_access_check_peers(const struct nvs_device *owner, const CUmemAccessDesc_v1 *desc,
				size_t count);
/* Of one of an entered chunk's mappings; devices that are not named keep what they have. */
CUresult nvs_access_change(struct nvs_chunk *chunk, CUdeviceptr address,
			   const CUmemAccessDesc_v1 *desc, size_t count);
/* One device's. */
unsigned long long nvs_access_flags(const struct nvs_access *access, int ordinal);
