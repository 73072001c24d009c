/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory is. */
#include "gate/gate.h"
#include "store.h"

/* What is allocated while the gate is closed has no device memory until it opens. */
void closed_gate(void)
{
	CUdeviceptr small, large;
	uint32_t value = 1;

	begin();
	close_gate();
	OK(cuMemAlloc_v2(&small, 100));
	OK(cuMemAlloc_v2(&large, 100 * MIB));
	CHECK(nvs_chunks_resident(device) == 0 && nvs_chunks_out_bytes(device) == 102 * MIB);
	open_gate();
	CHECK(nvs_chunks_resident(device) == 102 * MIB);
	OK(cuMemsetD32_v2(large, 5, 25 * MIB));
	OK(cuMemcpyDtoH_v2(&value, large + 100 * MIB - 4, 4));
	CHECK(value == 5);
	/* The small one's chunk was never written, as far as is known, before this. */
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(large));
}

/* What was never written needs no copy; what was copied and not used since needs none again. */
void clean(void)
{
	CUdeviceptr pointer;
	struct nvs_chunk *chunk;

	begin();
	OK(cuMemAlloc_v2(&pointer, 8 * MIB));
	close_gate();
	chunk = nvs_chunk_begin_out(device, 0);
	CHECK(chunk && nvs_chunk_is_clean(chunk));
	nvs_chunk_out(chunk);
	count(-(int64_t)chunk->bytes);
	CHECK(chunk->place == NVS_PLACE_NOWHERE && !chunk->handle);
	open_gate();
	OK(cuMemsetD8_v2(pointer, 1, 8 * MIB));
	close_gate();
	CHECK(!nvs_chunk_begin_out(device, 4 * MIB));
	CHECK(send_out() && chunk->place == NVS_PLACE_HOST);
	CHECK(bring_in() && nvs_chunk_is_clean(chunk));
	chunk = nvs_chunk_begin_out(device, 0);
	CHECK(chunk && nvs_chunk_is_clean(chunk));
	/* Its granules went to another one: then it has to be copied. */
	chunk->host_copy = false;
	CHECK(!nvs_chunk_is_clean(chunk));
	nvs_chunk_stays(chunk);
	CHECK(send_out());
	open_gate();
}

/* What runs already may write to what is made now: that is copied, though nothing was submitted
 * since. */
void made_beside_work(void)
{
	CUdeviceptr before, beside;
	struct nvs_chunk *chunk;

	begin();
	OK(cuMemAlloc_v2(&before, 4 * MIB));
	OK(cuMemsetD8_v2(before, 1, 4 * MIB));
	OK(cuMemAlloc_v2(&beside, 4 * MIB));
	close_gate();
	CHECK(!nvs_chunk_begin_out(device, 0));
	OK(cuMemAlloc_v2(&beside, 4 * MIB));
	open_gate();
	close_gate();
	chunk = nvs_chunk_begin_out(device, 0);
	CHECK(chunk && nvs_chunk_is_clean(chunk));
	nvs_chunk_stays(chunk);
	open_gate();
}

/* The scheduler refuses; the driver refuses what the scheduler allowed. */
void refused(void)
{
	CUdeviceptr hog, pointer = 77;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp_v1 prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	size_t bytes, total;

	begin();
	room.most = 10 * MIB;
	CHECK(cuMemAlloc_v2(&pointer, 11 * MIB) == CUDA_ERROR_OUT_OF_MEMORY && pointer == 77);
	CHECK(cuMemAlloc_v2(&pointer, UINT64_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(room.lacking == 0 && room.footprint == 0);
	room.most = UINT64_MAX;
	OK(NVS_CALL(cuMemGetInfo_v2, &bytes, &total));
	OK(NVS_CALL(cuMemCreate, &handle, (bytes - 130 * MIB) / (2 * MIB) * (2 * MIB), &prop, 0));
	CHECK(cuMemAlloc_v2(&pointer, 200 * MIB) == CUDA_ERROR_OUT_OF_MEMORY && pointer == 77);
	CHECK(room.lacking == 4 && room.footprint == 0 && room.resident == 0);
	CHECK(nvs_chunks_resident(device) == 0);
	/* While the gate is closed, nobody needs it yet. */
	nvs_gate_set(device, NVS_GATE_CLOSED);
	OK(cuMemAlloc_v2(&hog, 200 * MIB));
	CHECK(room.lacking == 4 && room.footprint == 200 * MIB);
	CHECK(room.resident == nvs_chunks_resident(device) && room.resident <= 130 * MIB);
	OK(NVS_CALL(cuMemRelease, handle));
	open_gate();
	OK(cuMemsetD8_v2(hog, 1, 200 * MIB));
	OK(cuMemFree_v2(hog));
}
