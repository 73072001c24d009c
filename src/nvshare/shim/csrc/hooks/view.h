/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pointer is, as the program is told.
 */
#ifndef NVSHARE_VIEW_H
#define NVSHARE_VIEW_H

#include "cuda/abi.h"

struct nvs_device;

/* The device whose memory it points to; NULL: that of the host, or not known. */
struct nvs_device *nvs_device_of_pointer(CUdeviceptr pointer);

#endif
