/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the client of a device does next. Pure: no lock, no clock, no system call; events and the
 * time go in, actions come out, to be carried out in their order. A state belongs to one thread.
 */
#pragma once

#include "client/lock_types.h"

/* cdef begin */
/*
 * A client that has just met its device; the first deadline is `now`. Who waits for longer than
 * `patience` microseconds is told why, once a wait.
 */
void nvs_lock_state_init(struct nvs_lock_state *state, int on_missing, uint32_t pid,
			 uint64_t patience, uint64_t now);
/* False: the event can't happen in this state; nothing was changed. */
bool nvs_lock_state_handle(struct nvs_lock_state *state, const struct nvs_lock_event *event,
			   uint64_t now, struct nvs_lock_actions *out);
/* When TIMER is due, NVS_LOCK_NEVER for not at all. */
uint64_t nvs_lock_state_deadline(const struct nvs_lock_state *state);
/* What a frame from the scheduler means: BAD_FRAME when it is none that a scheduler may send. */
struct nvs_lock_event nvs_lock_event_of(const struct nvs_frame *frame);
const char *nvs_link_name(int link);
const char *nvs_lock_name(int lock);
const char *nvs_lock_event_name(int kind);
/* cdef end */
