/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver has of the program's memory: as much as there is here, with the same rights. */
#include "store.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp_v1 *prop, unsigned long long flags);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags);
CUresult cuMemAddressReserve(CUdeviceptr *start, size_t bytes, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr start, size_t bytes, const CUmemAccessDesc_v1 *access,
			size_t count);

static const CUmemAllocationProp_v1 prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

static size_t driver_free(void)
{
	size_t bytes, total;

	OK(NVS_CALL(cuMemGetInfo_v2, &bytes, &total));
	return bytes;
}

static void all_out(void)
{
	close_gate();
	while (send_out())
		;
}

static uint32_t value_at(CUdeviceptr pointer)
{
	uint32_t value = 77;

	OK(cuMemcpyDtoH_v2(&value, pointer, sizeof(value)));
	return value;
}

/* What is out, or freed, takes nothing. */
void given_back(void)
{
	CUdeviceptr pointer;
	size_t before;

	begin();
	before = driver_free();
	OK(cuMemAlloc_v2(&pointer, 200 * MIB));
	CHECK(driver_free() == before - 200 * MIB);
	OK(cuMemsetD32_v2(pointer, 5, 50 * MIB));
	for (int i = 0; i < 2; i++) {
		all_out();
		CHECK(driver_free() == before);
		open_gate();
		CHECK(driver_free() == before - 200 * MIB);
	}
	CHECK(value_at(pointer + 100 * MIB) == 5);
	OK(cuMemFree_v2(pointer));
	CHECK(driver_free() == before);
}

/* When the driver refuses a part of it, nothing of it is here, and its contents are where they
 * were. */
void refused_on_return(void)
{
	CUmemGenericAllocationHandle foreign;
	CUdeviceptr pointer, second;
	struct nvs_chunk *chunk;
	CUresult result;
	size_t before;

	begin();
	before = driver_free();
	OK(cuMemAlloc_v2(&pointer, 8 * MIB));
	OK(cuMemsetD32_v2(pointer, 5, 2 * MIB));
	OK(NVS_CALL(cuMemAddressReserve, &second, 8 * MIB, 0, 0, 0));
	close_gate();
	chunk = nvs_chunk_begin_out(device, UINT64_MAX);
	nvs_chunk_stays(chunk);
	nvs_chunk_enter(chunk);
	OK(nvs_chunk_map(chunk, second, true));
	nvs_chunk_leave(chunk);
	CHECK(send_out() && driver_free() == before);
	/* Its second place can be mapped, and then its first one can't. */
	OK(NVS_CALL(cuMemCreate, &foreign, 8 * MIB, &prop, 0));
	OK(NVS_CALL(cuMemMap, pointer, 8 * MIB, 0, foreign, 0));
	CHECK(!nvs_chunk_begin_in(device, UINT64_MAX, &result) && result != CUDA_SUCCESS);
	CHECK(driver_free() == before - 8 * MIB && chunk->place == NVS_PLACE_HOST);
	OK(NVS_CALL(cuMemUnmap, pointer, 8 * MIB));
	OK(NVS_CALL(cuMemMap, second, 8 * MIB, 0, foreign, 0));
	OK(NVS_CALL(cuMemUnmap, second, 8 * MIB));
	OK(NVS_CALL(cuMemRelease, foreign));
	open_gate();
	CHECK(value_at(pointer) == 5);
	nvs_chunk_enter(chunk);
	OK(nvs_chunk_unmap(chunk, second));
	nvs_chunk_leave(chunk);
	OK(cuMemFree_v2(pointer));
	/* There is no such device that could be given access. */
	OK(nvs_chunks_allow(device, 1ull << 9));
	CHECK(cuMemAlloc_v2(&pointer, 8 * MIB) != CUDA_SUCCESS);
	CHECK(driver_free() == before && room.footprint == 0);
}

/* The device's rights: 0 none, 1 read, 3 read and write. */
static unsigned long long rights(CUdeviceptr pointer, int ordinal)
{
	CUmemLocation_v1 location = { CU_MEM_LOCATION_TYPE_DEVICE, ordinal };
	unsigned long long flags = 77;

	OK(NVS_CALL(cuMemGetAccess, &flags, &location, pointer));
	return flags;
}

static void set_rights(CUdeviceptr pointer, int ordinal, unsigned long long flags)
{
	CUmemAccessDesc_v1 access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, ordinal } };
	struct nvs_device *first = device;

	access.flags = (CUmemAccess_flags)flags;
	OK(cuMemSetAccess(pointer, 4 * MIB, &access, 1));
	device = first; /* a device that is used for the first time becomes this one */
}

/* They are the same after a way out and in, also where no copy can be made through the mapping. */
void rights_return(void)
{
	const unsigned long long each[][2] = { { 3, 0 }, { 1, 0 }, { 1, 3 }, { 0, 3 }, { 0, 0 } };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr pointer, window, again;
	struct nvs_chunk *chunk;

	begin();
	OK(cuMemAddressReserve(&pointer, 4 * MIB, 0, 0, 0));
	OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
	OK(cuMemMap(pointer, 4 * MIB, 0, handle, 0));
	set_rights(pointer, 0, 3);
	OK(cuMemsetD32_v2(pointer, 5, MIB));
	for (int i = 0; i < 5; i++) {
		set_rights(pointer, 0, each[i][0]);
		set_rights(pointer, 1, each[i][1]);
		CHECK(rights(pointer, 0) == each[i][0] && rights(pointer, 1) == each[i][1]);
		all_out();
		open_gate();
		CHECK(rights(pointer, 0) == each[i][0] && rights(pointer, 1) == each[i][1]);
	}
	/* It is copied through a window then, which is closed again. */
	close_gate();
	chunk = nvs_chunk_begin_out(device, UINT64_MAX);
	window = nvs_chunk_address(chunk);
	CHECK(window && window != pointer);
	nvs_chunk_stays(chunk);
	CHECK(!chunk->window);
	OK(NVS_CALL(cuMemAddressReserve, &again, 4 * MIB, 0, window, 0));
	CHECK(again == window);
	open_gate();
	set_rights(pointer, 0, 3);
	CHECK(value_at(pointer) == 5);
}

/* Peers that are allowed, or not any more, while a chunk is in the mover's hands. */
void peers_meanwhile(void)
{
	CUdeviceptr pointer;
	struct nvs_chunk *chunk;
	CUresult result;

	begin();
	OK(cuMemAlloc_v2(&pointer, 4 * MIB));
	close_gate();
	CHECK(send_out());
	chunk = nvs_chunk_begin_in(device, UINT64_MAX, &result);
	CHECK(chunk);
	OK(nvs_chunks_allow(device, 2));
	nvs_chunk_in(chunk);
	count(4 * (int64_t)MIB);
	CHECK(rights(pointer, 0) == 3 && rights(pointer, 1) == 3);
	chunk = nvs_chunk_begin_out(device, UINT64_MAX);
	OK(nvs_chunks_allow(device, 0));
	nvs_chunk_stays(chunk);
	CHECK(rights(pointer, 0) == 3 && rights(pointer, 1) == 0);
	/* And while it is in nobody's. */
	OK(nvs_chunks_allow(device, 2));
	CHECK(rights(pointer, 0) == 3 && rights(pointer, 1) == 3);
	OK(nvs_chunks_allow(device, 0));
	CHECK(rights(pointer, 0) == 3 && rights(pointer, 1) == 0);
	open_gate();
}
