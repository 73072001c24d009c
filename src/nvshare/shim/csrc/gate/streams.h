/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device a stream, a context or a pointer belongs to.
 */
#pragma once

#include "cuda/abi.h"

struct nvs_device;

/*
 * The device that a submission belongs to: `stream` may be NULL (legacy or per-thread default
 * stream).
 */
struct nvs_device *nvs_device_of(void *stream);
/* The device of a context, current or not. NULL: no such context. */
struct nvs_device *nvs_device_of_context(void *context);
/* The device whose memory it points to; NULL: memory of the host, or not known. */
struct nvs_device *nvs_device_of_pointer(CUdeviceptr pointer);
/* A stream ended: its handle may come back as another one's. */
void nvs_stream_ended(void);
