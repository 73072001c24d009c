/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend `swap`: plain memory made of chunks that move to host memory and back. How much there
 * may be is the room's business. No state, no lock.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/blocks.h"

#define PITCH_BYTES 512 /* what the driver aligns the rows of cuMemAllocPitch to */

static CUresult swap_alloc(CUdeviceptr *pointer, size_t bytes)
{
	struct nvs_device *device = nvs_device_of(NULL);

	return device ? nvs_block_alloc(device, bytes, pointer) : CUDA_ERROR_INVALID_CONTEXT;
}
