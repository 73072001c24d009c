/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client says: frames to the scheduler, warnings to the user.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/lock_types.h"
#include "protocol/wire.h"

struct nvs_device;

/* A frame with nothing in it. */
void nvs_frame_begin(struct nvs_frame *frame, uint8_t type);
/* `action` is SEND_REGISTER; but for what it says of memory. */
void nvs_message_register(struct nvs_frame *frame, struct nvs_device *device,
			  const struct nvs_lock_state *state, const struct nvs_lock_action *action);
/* `action` is another of SEND_... */
void nvs_message_for(struct nvs_frame *frame, const struct nvs_lock_action *action);
/* To the user: the device's context is dead. */
void nvs_message_say_lost(const struct nvs_device *device);
/* The same to the scheduler, which then knows; false: it is not so, or it does already, or can't.
 */
bool nvs_message_lost(struct nvs_frame *frame, const struct nvs_device *device,
		      const struct nvs_lock_state *state, bool *known);
/*
 * The next notice that the scheduler doesn't know, which it then does; false: it knows all that it
 * can.
 */
bool nvs_message_notice(struct nvs_frame *frame, const struct nvs_lock_state *state,
			uint32_t *known);
/* `action` is one of WARN_... */
void nvs_message_warn(int action, const struct nvs_device *device,
		      const struct nvs_lock_state *state, const struct nvs_connection *connection);
