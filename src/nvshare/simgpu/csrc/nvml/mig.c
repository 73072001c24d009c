/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG devices, as far as the management library names them: the driver knows nothing of them, and
 * what is asked of one besides is its GPU's answer. Owns nothing: which there are says sick.c.
 */
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

/* A handle is the GPU's, and above that the number of the MIG device plus one. */
#define NUMBER_SHIFT 8

int nvml_mig_number(nvmlDevice_t device)
{
	return (int)((uintptr_t)device >> NUMBER_SHIFT) - 1;
}

nvmlDevice_t nvml_mig_handle(int index, int number)
{
	return (nvmlDevice_t)((uintptr_t)nvml_handle(index) | (uintptr_t)(number + 1)
								      << NUMBER_SHIFT);
}

void nvml_write_mig_uuid(const uint8_t gpu[16], int number, char text[SIM_UUID_TEXT_BYTES])
{
	uint8_t uuid[16];

	memcpy(uuid, gpu, sizeof(uuid));
	uuid[0] = (uint8_t)(uuid[0] + number + 1);
	sim_devices_write_uuid(uuid, text);
	memcpy(text, "MIG", 3);
}

/* How many eighths of its GPU's memory a MIG device has: by its slices, as on an H100. */
static uint64_t eighths(const char *profile)
{
	unsigned long slices = strtoul(profile, NULL, 10);

	return slices < 3 ? slices : slices < 5 ? 4 : 8;
}

nvmlReturn_t nvml_mig_memory(nvmlDevice_t device, int index, struct nvml_memory *memory)
{
	char profiles[NVML_MIG_DEVICES][NVML_PROFILE_BYTES];
	const struct sim_state *state = nvml_state();
	int number = nvml_mig_number(device);

	if (nvml_mig_devices(state, index, profiles) <= number)
		return NVML_ERROR_NOT_FOUND;
	memory->total = sim_state_device(state, index)->total_bytes / 8 * eighths(profiles[number]);
	memory->used = 0;
	memory->free = memory->total;
	return NVML_SUCCESS;
}

/* The MIG devices of a GPU; NVML_ERROR_NOT_SUPPORTED when it is not in MIG mode. */
static nvmlReturn_t count_of(nvmlDevice_t device, int *index, int *count)
{
	char profiles[NVML_MIG_DEVICES][NVML_PROFILE_BYTES];
	nvmlReturn_t result = nvml_index(device, index);

	if (result != NVML_SUCCESS)
		return result;
	if (nvml_mig_number(device) >= 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = nvml_mig_devices(nvml_state(), *index, profiles);
	return *count < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
					      unsigned int *pending)
{
	int index, count;
	nvmlReturn_t result = count_of(device, &index, &count);

	if (result != NVML_SUCCESS)
		return result;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	*current = *pending = 1;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *most)
{
	int index, count;
	nvmlReturn_t result = count_of(device, &index, &count);

	if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED)
		return result;
	if (!most)
		return NVML_ERROR_INVALID_ARGUMENT;
	*most = result == NVML_SUCCESS ? NVML_MIG_DEVICES : 0;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device,
							     unsigned int number, nvmlDevice_t *mig)
{
	int index, count;
	nvmlReturn_t result = count_of(device, &index, &count);

	if (result != NVML_SUCCESS)
		return result;
	if (!mig)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (number >= (unsigned int)count)
		return NVML_ERROR_NOT_FOUND;
	*mig = nvml_mig_handle(index, (int)number);
	return NVML_SUCCESS;
}

static nvmlReturn_t put_instance(nvmlDevice_t device, unsigned int instance, unsigned int *id)
{
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!id)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (nvml_mig_number(device) < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*id = instance;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
	return put_instance(device, (unsigned int)nvml_mig_number(device) + 1, id);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
	return put_instance(device, 0, id);
}
