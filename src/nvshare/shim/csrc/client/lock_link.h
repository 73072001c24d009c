/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What events of the connection change in the state of the lock. Pure; for the table in
 * lock_state.c.
 */
#ifndef NVSHARE_LOCK_LINK_H
#define NVSHARE_LOCK_LINK_H

#include "client/lock_rules.h"

/* Leaves the line, for which there is no other word, and registers anew. */
void nvs_lock_reconnect(struct nvs_lock_state *state, uint64_t now, struct nvs_lock_actions *out);

NVS_LOCK_RULE(nvs_lock_on_connected);
NVS_LOCK_RULE(nvs_lock_on_connect_failed);
NVS_LOCK_RULE(nvs_lock_on_disconnected);
NVS_LOCK_RULE(nvs_lock_on_bad_frame);
NVS_LOCK_RULE(nvs_lock_on_refused);
NVS_LOCK_RULE(nvs_lock_on_sched_on);

#endif
