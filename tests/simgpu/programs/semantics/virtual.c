/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management. */
#include "semantics.h"

CUmemAllocationProp_v1 on_device(void)
{
	return (CUmemAllocationProp_v1){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
}

CUmemAccessDesc_v1 all_rights(void)
{
	return (CUmemAccessDesc_v1){ { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
}

void virtual_memory(void)
{
	CUmemAllocationProp_v1 prop = on_device(), wrong = on_device(), got;
	CUmemAccessDesc_v1 access = all_rights();
	CUmemLocation location = access.location;
	CUmemGenericAllocationHandle_v1 handle, again;
	CUdeviceptr at, far, base;
	unsigned long long flags;
	size_t granularity, bytes;
	char host[16];
	unsigned int type;

	begin();
	SHOW(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	TRUTH(granularity == MIB(2));
	wrong.location.id = 99;
	SHOW(cuMemCreate(&handle, MIB(4), &wrong, 0));
	wrong = prop;
	wrong.type = 0;
	SHOW(cuMemCreate(&handle, MIB(4), &wrong, 0));
	SHOW(cuMemCreate(&handle, MIB(3), &prop, 0));
	SHOW(cuMemCreate(&handle, 0, &prop, 0));
	SHOW(cuMemCreate(&handle, MIB(4), &prop, 1));
	SHOW(cuMemCreate(&handle, (size_t)1 << 45, &prop, 0));
	SHOW(cuMemCreate(&handle, MIB(4), &prop, 0));
	SHOW(cuMemAddressReserve(&at, MIB(3), 0, 0, 0));
	SHOW(cuMemAddressReserve(&at, MIB(16), 3, 0, 0));
	SHOW(cuMemAddressReserve(&at, MIB(16), 0, 0, 1));
	SHOW(cuMemAddressReserve(&at, MIB(16), 0, 0, 0));
	TRUTH(at % MIB(2) == 0);
	SHOW(cuMemcpyDtoH_v2(host, at, 16));
	SHOW(cuMemsetD8_v2(at, 0, 16));
	SHOW(cuMemMap(at + 4096, MIB(4), 0, handle, 0));
	SHOW(cuMemMap(at, MIB(4), MIB(2), handle, 0));
	SHOW(cuMemMap(at, MIB(8), 0, handle, 0));
	SHOW(cuMemMap(at, MIB(2), 0, handle, 0));
	SHOW(cuMemUnmap(at, MIB(2)));
	SHOW(cuMemMap(at + MIB(64), MIB(4), 0, handle, 0));
	SHOW(cuMemMap(at, MIB(4), 0, handle, 1));
	SHOW(cuMemMap(at, MIB(4), 0, handle, 0));
	SHOW(cuMemMap(at, MIB(4), 0, handle, 0));
	SHOW(cuMemMap(at + MIB(8), MIB(4), 0, handle, 0));
	SHOW(cuMemGetAccess(&flags, &location, at));
	TRUTH(flags == 0);
	SHOW(cuMemSetAccess(at, MIB(16), &access, 1));
	SHOW(cuMemSetAccess(at, MIB(2), &access, 1));
	SHOW(cuMemSetAccess(at, MIB(4), &access, 0));
	SHOW(cuMemSetAccess(at, MIB(4), &access, 1));
	SHOW(cuMemSetAccess(at + MIB(8), MIB(4), &access, 1));
	SHOW(cuMemGetAccess(&flags, &location, at));
	TRUTH(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	SHOW(launch_fill(at, 5, 1024, NULL));
	SHOW(cuMemcpyDtoH_v2(host, at + MIB(8), 16));
	TRUTH(host[0] == 5 && host[4] == 5);
	SHOW(cuMemGetAddressRange_v2(&base, &bytes, at + 100));
	TRUTH(base == at);
	TRUTH(bytes == MIB(4));
	SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	SHOW(cuMemFree_v2(at));
	SHOW(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 4096)));
	TRUTH(again == handle);
	SHOW(cuMemRelease(again));
	SHOW(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + MIB(6))));
	SHOW(cuMemGetAllocationPropertiesFromHandle(&got, handle));
	TRUTH(got.type == prop.type && got.location.id == 0);
	SHOW(cuMemRelease(handle));
	SHOW(cuMemcpyDtoH_v2(host, at, 16));
	SHOW(cuMemAddressFree(at, MIB(16)));
	SHOW(cuMemUnmap(at, MIB(2)));
	SHOW(cuMemUnmap(at, MIB(4)));
	SHOW(cuMemUnmap(at, MIB(4)));
	SHOW(cuMemUnmap(at + MIB(8), MIB(4)));
	SHOW(cuMemAddressFree(at, MIB(8)));
	SHOW(cuMemAddressFree(at, MIB(16)));
	SHOW(cuMemAddressReserve(&far, MIB(16), 0, at, 0));
	TRUTH(far == at);
	SHOW(cuMemAddressFree(far, MIB(16)));
}

/* Several handles side by side, and calls over parts and wholes of them. */
void virtual_neighbours(void)
{
	CUmemAllocationProp_v1 prop = on_device();
	CUmemAccessDesc_v1 access = all_rights();
	CUmemGenericAllocationHandle_v1 one, two;
	CUdeviceptr at;
	size_t bytes;
	CUdeviceptr base;

	begin();
	MUST(cuMemCreate(&one, MIB(2), &prop, 0));
	MUST(cuMemCreate(&two, MIB(2), &prop, 0));
	MUST(cuMemAddressReserve(&at, MIB(8), 0, 0, 0));
	SHOW(cuMemMap(at, MIB(2), 0, one, 0));
	SHOW(cuMemMap(at + MIB(2), MIB(2), 0, two, 0));
	SHOW(cuMemSetAccess(at, MIB(4), &access, 1));
	SHOW(launch_fill(at + MIB(1), 5, MIB(2) / 4, NULL));
	SHOW(cuCtxSynchronize());
	SHOW(cuMemGetAddressRange_v2(&base, &bytes, at + MIB(3)));
	TRUTH(base == at);
	TRUTH(bytes == MIB(2));
	SHOW(cuMemUnmap(at, MIB(4)));
	SHOW(cuMemRelease(one));
	SHOW(cuMemRelease(two));
	SHOW(cuMemRelease(two));
	SHOW(cuMemAddressFree(at, MIB(8)));
}

void no_access_kernel(void)
{
	CUmemAllocationProp_v1 prop = on_device();
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;

	begin();
	MUST(cuMemCreate(&handle, MIB(2), &prop, 0));
	MUST(cuMemAddressReserve(&at, MIB(2), 0, 0, 0));
	MUST(cuMemMap(at, MIB(2), 0, handle, 0));
	SHOW(launch_fill(at, 5, 16, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemUnmap(at, MIB(2)));
	SHOW(cuMemRelease(handle));
}

void no_access_copy(void)
{
	CUmemAllocationProp_v1 prop = on_device();
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;
	char host[16];

	begin();
	MUST(cuMemCreate(&handle, MIB(2), &prop, 0));
	MUST(cuMemAddressReserve(&at, MIB(2), 0, 0, 0));
	MUST(cuMemMap(at, MIB(2), 0, handle, 0));
	SHOW(cuMemcpyDtoH_v2(host, at, 16));
	SHOW(cuCtxSynchronize());
}
