/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client says: frames to the scheduler, warnings to the user.
 */
#ifndef NVSHARE_MESSAGES_H
#define NVSHARE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/lock_types.h"
#include "protocol/wire.h"

struct nvs_device;

/* `action` is SEND_REGISTER; but for what it says of memory. */
void nvs_message_register(struct nvs_frame *frame, struct nvs_device *device,
			  const struct nvs_lock_state *state, const struct nvs_lock_action *action);
/* `action` is another of SEND_... */
void nvs_message_for(struct nvs_frame *frame, const struct nvs_lock_action *action);
/* What the environment asks for. */
void nvs_message_terms(struct nvs_frame *frame);
/*
 * The next notice that the scheduler doesn't know, which it then does; false: it knows all that it
 * can.
 */
bool nvs_message_notice(struct nvs_frame *frame, const struct nvs_lock_state *state,
			uint32_t *known);
/* `action` is one of WARN_... */
void nvs_message_warn(int action, const struct nvs_device *device,
		      const struct nvs_lock_state *state, const struct nvs_connection *connection);

#endif
