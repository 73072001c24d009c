/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of one device: a thread with a connection to the scheduler, around the pure logic of
 * lock_state.c. Every function may be called from any thread, never blocks on the network and
 * leaves errno alone.
 */
#pragma once

struct nvs_device;

/*
 * Starts the client thread of a device, which listens to the device from then on; called once a
 * device and process (again in a forked child that uses the device).
 */
void nvs_client_start(struct nvs_device *device);
/* In a forked child, with nvs_files_lock held. */
void nvs_clients_forked(void);
