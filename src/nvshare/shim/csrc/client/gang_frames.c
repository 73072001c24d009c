/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame GANG. No state, no lock.
 */
#include "client/gang_frames.h"

#include "gate/gang_page.h"
#include "protocol/wire.h"

bool nvs_gang_heard(struct nvs_device *device, struct nvs_connection *connection)
{
	const struct nvs_frame *frame = &connection->input;
	bool right;

	if (frame->magic != NVS_WIRE_MAGIC || frame->version != NVS_WIRE_VERSION ||
	    frame->type != NVS_GANG)
		return true;
	if (!frame->gang.slots)
		return connection->descriptor.number < 0;
	right = connection->descriptor.number >= 0 &&
		nvs_gang_enter(device, nvs_file_number(&connection->descriptor),
			       frame->gang.page_bytes, frame->gang.slot, frame->gang.slots);
	nvs_connection_close_descriptor(connection);
	return right;
}

/* A scheduler that registers us says anew who belongs together. */
void nvs_gang_follow(struct nvs_device *device, const struct nvs_lock_state *state)
{
	if (!state->in_gang)
		nvs_gang_leave(device);
}
