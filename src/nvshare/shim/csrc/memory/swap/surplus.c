/* SPDX-License-Identifier: Apache-2.0 */
/* Owns nothing: the segment that goes back is its own while the driver is called. */
#include "memory/swap/surplus.h"

#include "memory/swap/arena_record.h"
#include "memory/swap/pieces.h"

bool nvs_surplus_give_back(struct nvs_device *device, uint64_t most)
{
	struct nvs_segment segment;
	uint32_t first, end;

	if (!nvs_arena_take_out(device, most, &segment))
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
