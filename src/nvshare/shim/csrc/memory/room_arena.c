/* SPDX-License-Identifier: Apache-2.0 */
/* What the room knows of host memory, and how much of that is to go back. Owns nothing. */
#include "gate/device.h"
#include "memory/room.h"
#include "memory/room_record.h"
#include "process/clock.h"

bool nvs_room_held(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);

	return room->state.held;
}

void nvs_room_set_arena(struct nvs_device *device, uint64_t received, uint64_t offered,
			uint64_t returned)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_look) = nvs_room_lock(device);

	nvs_room_state_set_arena(&room->state, received, offered, returned);
}

uint64_t nvs_room_surplus(struct nvs_device *device, uint64_t *wait_ns)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);
	uint64_t now = nvs_now_us(), at = room->state.surplus_at;

	*wait_ns = at > now ? (at - now) * 1000 : UINT64_MAX;
	return nvs_room_state_surplus(&room->state, now);
}

void nvs_room_keep_surplus(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);

	nvs_room_state_keep_surplus(&room->state);
}
