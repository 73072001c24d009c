/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of one device to another one's memory. Which of them a kernel uses, nobody knows before it
 * runs, so its launch passes one gate only: that is said once, where nothing holds the devices
 * together. No state.
 */
#include <stdint.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/memory.h"
#include "memory/swap/handles.h"
#include "memory/swap/opens.h"
#include "memory/swap/peers.h"
#include "memory/swap/virtual.h"
#include "process/notices.h"
#include "ties/ties.h"

static uint64_t bit(int ordinal)
{
	return ordinal >= 0 && ordinal < NVS_MAX_DEVICES ? 1ULL << ordinal : 0;
}

/* The other devices that may use memory of `owner` now, a bit for each ordinal. */
static uint64_t others(const struct nvs_device *owner, const CUmemAccessDesc_v1 *access,
		       size_t count)
{
	uint64_t found = 0;

	for (size_t i = 0; owner && access && i < count; i++)
		if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    access[i].location.id != owner->ordinal &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			found |= bit(access[i].location.id);
	return found;
}

/*
 * Who reaches memory that moves needs the locks of both devices for each call: else it would keep
 * one of them while it waits for the other, which a gang may hold that waits for the first.
 */
static void tie_reaching(void)
{
	uint64_t reaching = 0;

	NVS_EACH_DEVICE(device, UINT64_MAX) {
		uint64_t reached = atomic_load(&device->reaches);

		if (reached)
			reaching |= reached | 1ULL << device->ordinal;
	}
	if (reaching)
		nvs_tie_devices(reaching);
}

/* Kernels of these devices, a bit for each ordinal, may use memory of others now. */
static void allowed(uint64_t users)
{
	if (!users)
		return;
	tie_reaching();
	if (!nvs_ties_hold(users))
		nvs_notice(NVS_NOTICE_PEER_ACCESS);
}

/* The current context may, or may not any more, reach memory of the peer's device. */
static CUresult change_access(const struct nvs_device *user, CUcontext peer, int change)
{
	struct nvs_device *owner =
		user && nvs_memory_swaps(user) ? nvs_device_of_context(peer) : NULL;

	CUresult result;

	if (!owner || !nvs_memory_swaps(owner))
		return CUDA_SUCCESS;
	result = nvs_peers_change(owner, user, change);
	nvs_opens_allow(owner);
	return result;
}

NVS_HOOK(cuCtxEnablePeerAccess, CUcontext peerContext, unsigned int Flags)
{
	CUresult result = NVS_CALL(cuCtxEnablePeerAccess, peerContext, Flags);
	const struct nvs_device *user;

	if (result != CUDA_SUCCESS)
		return result;
	user = nvs_device_of(NULL);
	result = change_access(user, peerContext, 1);
	if (result == CUDA_SUCCESS && user)
		allowed(bit(user->ordinal));
	return result;
}

NVS_HOOK(cuCtxDisablePeerAccess, CUcontext peerContext)
{
	CUresult result = NVS_CALL(cuCtxDisablePeerAccess, peerContext);

	return result == CUDA_SUCCESS ? change_access(nvs_device_of(NULL), peerContext, -1)
				      : result;
}

/* The device whose memory is mapped there, here or not. */
static const struct nvs_device *owner_of(CUdeviceptr pointer)
{
	struct nvs_handle *ours = nvs_virtual_handle(pointer);
	const struct nvs_device *owner = ours ? ours->device : nvs_device_of_pointer(pointer);

	if (ours)
		nvs_handle_put(ours);
	return owner;
}

NVS_HOOK(cuMemSetAccess, CUdeviceptr_v2 ptr, size_t size, const CUmemAccessDesc_v1 *desc,
	 size_t count)
{
	CUresult result = nvs_virtual_ours(ptr, size)
				  ? nvs_virtual_set_access(ptr, size, desc, count)
				  : NVS_CALL(cuMemSetAccess, ptr, size, desc, count);

	if (result == CUDA_SUCCESS)
		allowed(others(owner_of(ptr), desc, count));
	return result;
}

/* A pool does not tell its device, and programs set the access of their current one's. */
NVS_HOOK(cuMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc_v1 *map, size_t count)
{
	CUresult result = NVS_CALL(cuMemPoolSetAccess, pool, map, count);

	if (result == CUDA_SUCCESS)
		allowed(others(nvs_device_of(NULL), map, count));
	return result;
}
