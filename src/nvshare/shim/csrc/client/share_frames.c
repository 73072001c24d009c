/* SPDX-License-Identifier: Apache-2.0 */
/* No state beside the record that is passed in, no lock. */
#include "client/share_frames.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "memory/swap/exports.h"
#include "memory/swap/parts.h"
#include "memory/swap/shared.h"

#define SHARE_LEVEL 3

static int link_of(const struct nvs_share_frames *share, const struct nvs_lock_state *state)
{
	if (state->link == NVS_LINK_UP)
		return state->level >= SHARE_LEVEL ? NVS_PARTS_LINK_UP : NVS_PARTS_LINK_DOWN;
	/* Before the first attempt has ended, nobody knows. */
	return share->link == NVS_PARTS_LINK_UNKNOWN && !state->failures ? NVS_PARTS_LINK_UNKNOWN
									 : NVS_PARTS_LINK_DOWN;
}

void nvs_share_follow(struct nvs_share_frames *share, const struct nvs_lock_state *state)
{
	int link = link_of(share, state);

	if (link == share->link)
		return;
	share->link = link;
	nvs_exports_link(share->device, link == NVS_PARTS_LINK_UP);
	nvs_parts_link(share->device, (enum nvs_parts_link)link);
}

/* In place of a part that can't go now. */
static void say_no(struct nvs_connection *connection, uint32_t request)
{
	struct nvs_frame frame;

	nvs_shared_begin(&frame, NVS_NOT_SHARED);
	frame.request = request;
	snprintf(frame.text, sizeof(frame.text), "too many descriptors are on their way");
	nvs_connection_send(connection, &frame);
}

void nvs_share_say(struct nvs_share_frames *share, struct nvs_connection *connection)
{
	struct nvs_frame frame;
	struct nvs_file descriptor;
	int number;

	while (share->link == NVS_PARTS_LINK_UP && !connection->broken &&
	       (nvs_exports_say(share->device, &frame, &descriptor) ||
		nvs_parts_say(share->device, &frame))) {
		if (frame.type != NVS_SHARED) {
			nvs_connection_send(connection, &frame);
			continue;
		}
		number = nvs_file_number(&descriptor);
		if (number < 0 || !nvs_connection_send_with(connection, &frame, number))
			say_no(connection, frame.request);
		nvs_files_lock();
		nvs_file_close(&descriptor);
		nvs_files_unlock();
	}
}

enum nvs_heard nvs_share_heard(struct nvs_share_frames *share, struct nvs_connection *connection)
{
	const struct nvs_frame *frame = &connection->input;
	bool right;

	if (frame->magic != NVS_WIRE_MAGIC || frame->version != NVS_WIRE_VERSION)
		return NVS_HEARD_OTHER;
	switch (frame->type) {
	case NVS_ASK_SHARED:
		right = connection->descriptor.number < 0 &&
			nvs_exports_heard(share->device, frame);
		break;
	case NVS_SHARED:
	case NVS_NOT_SHARED:
		right = (connection->descriptor.number >= 0) == (frame->type == NVS_SHARED);
		/* A thread may have given up meanwhile. */
		if (right)
			nvs_parts_heard(share->device, frame, connection->text,
					&connection->descriptor);
		nvs_connection_close_descriptor(connection);
		break;
	default:
		return NVS_HEARD_OTHER;
	}
	return right && share->link == NVS_PARTS_LINK_UP ? NVS_HEARD_MEMORY : NVS_HEARD_WRONG;
}
