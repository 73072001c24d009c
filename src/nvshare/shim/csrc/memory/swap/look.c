/* SPDX-License-Identifier: Apache-2.0 */
/* Which gates a call passes that looks at device memory. No state. */
#include "memory/swap/look.h"

#include "gate/device.h"
#include "memory/memory.h"
#include "memory/room.h"

static uint64_t swapping(struct nvs_device *device)
{
	return device && nvs_memory_swaps(device) && nvs_room_footprint(device)
		       ? 1ULL << device->ordinal
		       : 0;
}

CUresult nvs_look_enter(struct nvs_pass *pass, const struct nvs_device *device)
{
	struct nvs_device *only = atomic_load_explicit(&nvs_device_only, memory_order_acquire);
	uint64_t mask = device && nvs_memory_swaps(device) ? 1ULL << device->ordinal : 0;

	if (only)
		mask |= swapping(only);
	else
		for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++)
			mask |= swapping(nvs_device_known(ordinal));
	if (mask)
		return nvs_gate_enter_mask(pass, mask, NULL);
	*pass = (struct nvs_pass){ 0 };
	return CUDA_SUCCESS;
}
