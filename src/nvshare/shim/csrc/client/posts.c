/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client tells around itself. No state, no lock: for the client's thread.
 */
#include "client/posts.h"

#include "client/join_frames.h"
#include "client/messages.h"
#include "client/record.h"
#include "gate/device.h"
#include "process/clock.h"

void nvs_post_terms(struct nvs_client *client)
{
	struct nvs_frame frame;

	if (nvs_message_terms(&frame, client->state.level))
		nvs_connection_send(&client->connection, &frame);
}

void nvs_post_ties(struct nvs_client *client)
{
	struct nvs_frame frame;

	while (nvs_join_next_frame(client->device, &frame))
		nvs_connection_send(&client->connection, &frame);
}

void nvs_tell_others(struct nvs_client *client)
{
	const struct nvs_lock_state *state = &client->state;

	nvs_device_tell_others(
		client->device, state->waiters > 0 || state->lock == NVS_LOCK_DRAINING,
		state->lock == NVS_LOCK_WAITING, client->progress.together, nvs_now_ns());
}
