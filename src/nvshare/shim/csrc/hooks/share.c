/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of what makes memory of this process known to others: to another process, to the driver of
 * another device, to a multicast object. Nobody would tell them where it went, so from then on it
 * stays where it is; while the call looks at it, the gate's pass keeps it there. Memory of others
 * is theirs to move. No state.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/pass.h"
#include "memory/swap/blocks.h"
#include "memory/swap/chunks.h"
#include "memory/swap/handles.h"
#include "memory/swap/look.h"
#include "memory/swap/virtual.h"
#include "process/notices.h"

/* Another process would open memory that is not there when this one's turn is over. */
NVS_HOOK(cuIpcGetMemHandle, CUipcMemHandle_v1 *pHandle, CUdeviceptr_v2 dptr)
{
	struct nvs_block block;

	if (!nvs_block_find(dptr, &block))
		return NVS_CALL(cuIpcGetMemHandle, pHandle, dptr);
	/* Of virtual memory the driver has no such handles either. */
	if (block.kind == NVS_BLOCK_MAPPING || !pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	nvs_notice(NVS_NOTICE_IPC);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Calls `call`, which has the handle's chunk number `i` at `at` of it, for all of a part of it. */
#define OF_CHUNKS(handle, offset, bytes, result, call)                                          \
	for (size_t i = 0; (result) == CUDA_SUCCESS && i < (handle)->count; i++) {              \
		uint64_t at = i * (uint64_t)NVS_CHUNK_BYTES;                                    \
		uint64_t end = at + (handle)->chunks[i]->bytes;                                 \
		uint64_t from = (offset) > at ? (offset) : at;                                  \
		uint64_t to = (offset) + (bytes) < end ? (offset) + (bytes) : end;              \
		CUmemGenericAllocationHandle part = nvs_chunk_driver_handle((handle)->chunks[i]); \
                                                                                                \
		if (from < to)                                                                  \
			(result) = call;                                                        \
	}

