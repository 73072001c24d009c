/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses, as a driver takes them (580, an H200). No state, no lock. */
#include "memory/swap/access.h"

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/swap/chunk.h"

bool nvs_access_device_exists(int ordinal)
{
	int devices = 0;

	NVS_CALL(cuDeviceGetCount, &devices);
	return ordinal >= 0 && ordinal < devices && ordinal < NVS_MAX_DEVICES;
}

/* What the driver says of one device's access. */
static CUresult check(const CUmemAccessDesc_v1 *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return nvs_access_device_exists(desc->location.id) ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

CUresult nvs_access_check(const CUmemAccessDesc_v1 *desc, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = check(&desc[i]);
	return result;
}

CUresult nvs_access_check_peers(const struct nvs_device *owner, const CUmemAccessDesc_v1 *desc,
				size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int can = 1;

		if (desc[i].location.id != owner->ordinal &&
		    desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    NVS_CALL(cuDeviceCanAccessPeer, &can, desc[i].location.id, owner->ordinal) ==
			    CUDA_SUCCESS &&
		    !can)
			return CUDA_ERROR_INVALID_DEVICE;
	}
	return CUDA_SUCCESS;
}

CUresult nvs_access_change(struct nvs_chunk *chunk, CUdeviceptr address,
			   const CUmemAccessDesc_v1 *desc, size_t count)
{
	struct nvs_access access = { 0 };

	nvs_chunk_access(chunk, address, &access);
	for (size_t i = 0; i < count; i++) {
		uint64_t bit = 1ull << desc[i].location.id;

		access.read_write &= ~bit;
		access.read_only &= ~bit;
		if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			access.read_write |= bit;
		else if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			access.read_only |= bit;
	}
	return nvs_chunk_set_access(chunk, address, &access);
}

unsigned long long nvs_access_flags(const struct nvs_access *access, int ordinal)
{
	if (access->read_write >> ordinal & 1)
		return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return access->read_only >> ordinal & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
						: CU_MEM_ACCESS_FLAGS_PROT_NONE;
}
