/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a turn of a gang: its members stop at a place where the work of all has completed
 * (lead.c). For a drain, in the device's worker.
 */
#pragma once

#include <stdbool.h>

struct nvs_device;
struct nvs_gang;

/*
 * With the gate closed and no capture going on. True: all that was submitted has completed, in all
 * members, and nothing more can be. False: it led nowhere, and the gate should be opened again.
 * `stepping` is called when a submission was let through.
 */
bool nvs_cut(struct nvs_device *device, struct nvs_gang *gang, void (*stepping)(void *argument),
	     void *argument);
