/* SPDX-License-Identifier: Apache-2.0 */
/* Owns nothing: the segment that goes back is its own while the driver is called. */
#include "memory/swap/surplus.h"

#include <stdatomic.h>

#include "gate/device.h"
#include "memory/room.h"
#include "memory/swap/arena_record.h"
#include "memory/swap/pieces.h"

/*
 * The driver may wait for what runs, on any device, before it lets host memory go; and what runs
 * may wait for what the program would submit meanwhile.
 */
static bool may_run(void)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (nvs_room_held(device) || atomic_load(&device->gate.state) != NVS_GATE_CLOSED)
			return true;
	return false;
}

bool nvs_surplus_give_back(struct nvs_device *device, uint64_t most)
{
	struct nvs_segment segment;
	uint32_t first, end;

	if (may_run() || !nvs_arena_take_out(device, most, &segment))
		return false;
	first = segment.first / NVS_PIECE_GRANULES;
	end = (segment.first + segment.count - 1) / NVS_PIECE_GRANULES + 1;
	if (!nvs_pieces_unregister(device, first, end)) {
		nvs_arena_put_in(device, &segment);
		return false;
	}
	nvs_arena_give_back(device, &segment);
	return true;
}
