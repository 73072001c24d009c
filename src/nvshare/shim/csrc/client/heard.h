/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client hears from the scheduler. For the client's thread.
 */
#pragma once

struct nvs_client;

enum nvs_heard {
	NVS_HEARD_WRONG = 0, /* no scheduler would send it, now or ever */
	NVS_HEARD_WHOLE = 1,
	NVS_HEARD_BY_LOCK = 2, /* the lock's state is to hear it, too (nvs_lock_event_of) */
};

/* The frame that the connection has received; its descriptor is taken. */
enum nvs_heard nvs_hear(struct nvs_client *client);
