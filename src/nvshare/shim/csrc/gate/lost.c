/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns which devices are lost to this process. No lock: `lost` of a device changes once.
 *
 * A context whose kernel faulted answers the same error to everything, and NVIDIA's documentation
 * says so of the whole process: only its end helps. Driver 580 lets the context be reset, and makes
 * no other one in that process; handles of memory can still be unmapped and released.
 */
#include "gate/lost.h"

#include <stddef.h>

static _Atomic bool any; /* device has ever been: few programs need to be asked which */

static const struct {
	CUresult result;
	const char *name;
} finals[] = {
#define FINAL(name) { CUDA_ERROR_##name, "CUDA_ERROR_" #name }
	FINAL(ECC_UNCORRECTABLE),
	FINAL(NVLINK_UNCORRECTABLE),
	FINAL(CONTAINED),
	FINAL(ILLEGAL_ADDRESS),
	FINAL(LAUNCH_TIMEOUT),
	FINAL(ASSERT),
	FINAL(HARDWARE_STACK_ERROR),
	FINAL(ILLEGAL_INSTRUCTION),
	FINAL(MISALIGNED_ADDRESS),
	FINAL(INVALID_ADDRESS_SPACE),
	FINAL(INVALID_PC),
	FINAL(LAUNCH_FAILED),
	FINAL(TENSOR_MEMORY_LEAK),
	FINAL(MPS_CLIENT_TERMINATED),
	FINAL(EXTERNAL_DEVICE),
};

const char *nvs_final_name(CUresult result)
{
	for (size_t i = 0; i < sizeof(finals) / sizeof(finals[0]); i++)
		if (finals[i].result == result)
			return finals[i].name;
	return NULL;
}

bool nvs_lost_any(void)
{
	return atomic_load(&any);
}

void nvs_lost_suspect(struct nvs_device *device, CUresult result)
{
	if (!nvs_final_name(result) || nvs_lost(device) != CUDA_SUCCESS)
		return;
	atomic_store_explicit(&device->suspect, true, memory_order_relaxed);
	nvs_device_tell(device, NVS_NEWS_SUSPECTED);
}

void nvs_lose(struct nvs_device *device, CUresult result)
{
	int before = CUDA_SUCCESS;

	atomic_store(&any, true);
	if (atomic_compare_exchange_strong(&device->lost, &before, result))
		nvs_device_tell(device, NVS_NEWS_LOST);
}
