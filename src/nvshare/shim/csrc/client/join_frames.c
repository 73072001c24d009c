/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames about ties. No state, no lock.
 */
#include "client/join_frames.h"

#include <string.h>

#include "ties/ties.h"

#define GANG_LEVEL 3

void nvs_join_follow(struct nvs_device *device, const struct nvs_lock_state *state)
{
	if (state->link == NVS_LINK_UP)
		nvs_ties_link(device, state->level >= GANG_LEVEL ? NVS_TIES_LINK_UP
								 : NVS_TIES_LINK_WITHOUT);
	/* An attempt changes nothing before it has succeeded or failed. */
	else if (state->link == NVS_LINK_DOWN && state->failures)
		nvs_ties_link(device, NVS_TIES_LINK_WITHOUT);
}

bool nvs_join_next_frame(struct nvs_device *device, struct nvs_frame *frame)
{
	memset(frame, 0, sizeof(*frame));
	frame->magic = NVS_WIRE_MAGIC;
	frame->version = NVS_WIRE_VERSION;
	return nvs_ties_say(device, frame);
}

bool nvs_join_heard(struct nvs_device *device, const struct nvs_connection *connection)
{
	const struct nvs_frame *frame = &connection->input;

	return frame->magic == NVS_WIRE_MAGIC && frame->version == NVS_WIRE_VERSION &&
	       frame->type == NVS_JOINED && connection->descriptor.number < 0 &&
	       nvs_ties_heard(device, frame);
}
