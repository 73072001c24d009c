/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of one device: a thread with a connection to the scheduler, around the pure lease
 * logic of lease.c. Every function may be called from any thread, never blocks on the network and
 * leaves errno alone.
 */
#ifndef NVSHARE_CLIENT_H
#define NVSHARE_CLIENT_H

struct nvs_device;

/*
 * Starts the client thread of a device; called once a device and process (again in a forked child
 * that uses the device).
 */
void nvs_client_start(struct nvs_device *device);
/* A submission found the gate closed: ask for the lock if that has not been done. */
void nvs_client_want(struct nvs_device *device);
/* device->footprint_bytes changed: tell the scheduler, soon, the newest value only. */
void nvs_client_footprint(struct nvs_device *device);

#endif
