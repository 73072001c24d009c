/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the client of a device does next. Pure: no lock, no clock, no system call; events and the
 * time go in, actions come out, to be carried out in their order. A state belongs to one thread.
 */
#ifndef NVSHARE_LOCK_STATE_H
#define NVSHARE_LOCK_STATE_H

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
/* cdef end */

#endif
