/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that look at device memory without submitting, made from hooks.def, and which gates
 * such a call passes. No state.
 */
#include "hooks/look.h"

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/memory.h"
#include "memory/room.h"

/*
 * One gate, and those of the devices that this one reaches: who waited for all of the process's
 * devices at a time would lose each again, idle, while it waits for the next.
 */
CUresult nvs_look_enter(struct nvs_pass *pass, const struct nvs_device *device)
{
	struct nvs_device *current = device ? NULL : nvs_device_of(NULL);

	if (current && nvs_room_footprint(current))
		device = current;
	if (device && nvs_memory_swaps(device))
		return nvs_gate_enter_mask(pass, 1ULL << device->ordinal, NULL);
	*pass = (struct nvs_pass){ 0 };
	return CUDA_SUCCESS;
}

#define LOOK(symbol, parameters, arguments)                                       \
	CUresult nvs_body_##symbol parameters NVS_PASSING_BODY(symbol, arguments, \
							       nvs_look_enter(&nvs_pass, NULL), )
#include "hooks.def"
