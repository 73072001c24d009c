/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the lock's state share: lock_state.c has the table, and what happens to
 * the lock; lock_rules.c what happens to the connection. Pure.
 */
#pragma once

#include "client/lock_types.h"

#define NVS_LOCK_UNUSED __attribute__((unused))
/* Handles one event; false: illegal after all, and nothing was changed. */
#define NVS_LOCK_RULE(name)                                           \
	bool name(struct nvs_lock_state *state NVS_LOCK_UNUSED,       \
		  const struct nvs_lock_event *event NVS_LOCK_UNUSED, \
		  uint64_t now NVS_LOCK_UNUSED, struct nvs_lock_actions *out NVS_LOCK_UNUSED)

void nvs_lock_act(struct nvs_lock_actions *out, int kind);
/* The lock is to be given back. */
void nvs_lock_drain(struct nvs_lock_state *state, struct nvs_lock_actions *out);
/* The device has become lost: what is held is given back, and nothing is waited for. */
void nvs_lock_lose(struct nvs_lock_state *state, struct nvs_lock_actions *out);
/* Of a lost device it is given back instead. */
void nvs_lock_hold(struct nvs_lock_state *state, uint64_t grant, struct nvs_lock_actions *out);
/* The drain is over, and there is a scheduler to hear it, or the device is lost. */
void nvs_lock_release(struct nvs_lock_state *state, bool waiting, uint64_t now,
		      struct nvs_lock_actions *out);
/* Threads wait at the gate, maybe since earlier; they wait no longer. */
void nvs_lock_wait_begins(struct nvs_lock_state *state, uint64_t now);
void nvs_lock_wait_ends(struct nvs_lock_state *state);
/* `drain` is one of enum nvs_wire_drain; 0: nothing to report. */
void nvs_lock_report(struct nvs_lock_state *state, int drain, struct nvs_lock_actions *out);
/* Nobody to ask: what on_missing says happens to those who wait. A holder goes on in every case. */
void nvs_lock_do_without(struct nvs_lock_state *state, struct nvs_lock_actions *out);

/* Leaves the line, for which there is no other word, and registers anew. */
void nvs_lock_reconnect(struct nvs_lock_state *state, uint64_t now, struct nvs_lock_actions *out);

NVS_LOCK_RULE(nvs_lock_on_connected);
NVS_LOCK_RULE(nvs_lock_on_connect_failed);
NVS_LOCK_RULE(nvs_lock_on_disconnected);
NVS_LOCK_RULE(nvs_lock_on_bad_frame);
NVS_LOCK_RULE(nvs_lock_on_refused);
NVS_LOCK_RULE(nvs_lock_on_sched_on);
