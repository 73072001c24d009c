/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record for every device that this process uses: the meeting point of the gate (gate.c,
 * drain.c), the client thread (client.c) and the memory backends (memory*.c). Records are created
 * on the first context of a device, never freed, and are reset in a forked child.
 */
#ifndef NVSHARE_DEVICE_H
#define NVSHARE_DEVICE_H

#include <stdint.h>

#include "gate.h"

#define NVS_MAX_DEVICES 64

struct nvs_client;

struct nvs_device {
	int ordinal;	      /* CUDA's number in this process */
	uint8_t uuid[16];     /* what the lock belongs to */
	uint64_t total_bytes; /* as the driver says */
	struct nvs_gate gate;
	_Atomic uint64_t footprint_bytes; /* written by memory.c only */
	struct nvs_client *client;	  /* owned by client.c */
};

/* The only device that this process uses; NULL: none so far, or several. Owned by device.c. */
extern _Atomic(struct nvs_device *) nvs_device_only;

/*
 * The record of a device; creates it, and starts its client, when this is the device's first use.
 * NULL: no such device.
 */
struct nvs_device *nvs_device_use(int ordinal);

/*
 * The device that a submission belongs to: `stream` may be NULL (legacy or per-thread default
 * stream).
 */
struct nvs_device *nvs_device_of(void *stream);
/* The device of a context, current or not. NULL: no such context. */
struct nvs_device *nvs_device_of_context(void *context);
/* The record of a device that nvs_device_use has seen; NULL: it has not. */
struct nvs_device *nvs_device_known(int ordinal);

/* A stream or context ended: its handle may come back as another one's. */
void nvs_device_handles_changed(void);

#endif
