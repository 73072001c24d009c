/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of memory, and who may reach it. */
#include <sys/wait.h>

#include "store.h"

/* Memory ends with its context, also what is out; and the next context at that address has none. */
void context_end(void)
{
	CUdeviceptr pointer;
	CUcontext second;

	begin();
	for (int out = 0; out < 2; out++) {
		OK(cuCtxCreate_v2(&second, 0, 0));
		for (int i = 0; i < 5; i++) {
			OK(cuMemAlloc_v2(&pointer, 100));
			OK(cuMemAlloc_v2(&pointer, 70 * MIB));
		}
		CHECK(room.footprint == 352 * MIB);
		if (out) {
			close_gate();
			while (send_out())
				;
		}
		OK(cuCtxDestroy_v2(second));
		CHECK(room.footprint == 0 && room.resident == 0);
		CHECK(nvs_chunks_resident(device) + nvs_chunks_out_bytes(device) == 0);
		CHECK(cuMemFree_v2(pointer) == CUDA_ERROR_INVALID_VALUE);
		OK(cuCtxSetCurrent(context));
	}
}

/* A free from another context waits for the memory's own. */
void other_context(void)
{
	CUdeviceptr pointer;
	CUcontext second, now;

	begin();
	OK(cuMemAlloc_v2(&pointer, 100));
	OK(cuCtxCreate_v2(&second, 0, 0));
	OK(cuMemFree_v2(pointer));
	OK(cuCtxGetCurrent(&now));
	CHECK(now == second);
	OK(cuCtxDestroy_v2(second));
	OK(cuCtxSetCurrent(NULL));
	CHECK(cuMemAlloc_v2(&pointer, 100) == CUDA_ERROR_INVALID_CONTEXT);
}

/* A forked child has nothing of it. */
void fork_child(void)
{
	CUdeviceptr pointer;
	struct nvs_allocation block;
	int status;
	pid_t child;

	begin();
	OK(cuMemAlloc_v2(&pointer, 100));
	child = fork();
	if (!child) {
		CHECK(!nvs_allocation_find(pointer, &block));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(nvs_allocation_find(pointer, &block));
}

/* Pinned memory stays, and is fixed. */
void pinned(void)
{
	CUdeviceptr pointer, out;

	begin();
	OK(cuMemAlloc_v2(&pointer, 100 * MIB));
	CHECK(nvs_allocation_pin(pointer + MIB, 1));
	CHECK(room.footprint == 36 * MIB && room.fixed_bytes == 64 * MIB);
	CHECK(nvs_allocation_pin(pointer, 2 * MIB));
	CHECK(room.footprint == 36 * MIB && room.fixed_bytes == 64 * MIB);
	close_gate();
	CHECK(send_out() && !send_out());
	OK(cuMemAlloc_v2(&out, 4 * MIB));
	CHECK(!nvs_allocation_pin(out, 1));
	open_gate();
	OK(cuMemFree_v2(pointer));
	CHECK(room.fixed_bytes == 0 && room.footprint == 4 * MIB);
}

static unsigned long long access_of(CUdeviceptr pointer, int ordinal)
{
	CUmemLocation_v1 location = { CU_MEM_LOCATION_TYPE_DEVICE, ordinal };
	unsigned long long flags = 77;

	OK(NVS_CALL(cuMemGetAccess, &flags, &location, pointer));
	return flags;
}

/* Peers may reach what is there, what is made later, and what comes in again. */
void peers(void)
{
	CUdeviceptr before, after;

	begin();
	OK(cuMemAlloc_v2(&before, 100 * MIB));
	CHECK(access_of(before, 0) == 3 && access_of(before, 1) == 0);
	OK(nvs_chunks_allow(device, 2));
	OK(cuMemAlloc_v2(&after, 100));
	CHECK(access_of(before, 1) == 3 && access_of(before + 64 * MIB, 1) == 3);
	CHECK(access_of(after, 1) == 3);
	close_gate();
	while (send_out())
		;
	OK(nvs_chunks_allow(device, 0));
	open_gate();
	CHECK(access_of(before, 0) == 3 && access_of(before, 1) == 0 && access_of(after, 1) == 0);
	OK(nvs_chunks_allow(device, 2));
	CHECK(access_of(before, 1) == 3 && access_of(after, 1) == 3);
}

/* What the program is told is free, when the scheduler has said what it may have. */
void view(void)
{
	CUdeviceptr pointer;
	size_t bytes, total;

	begin();
	room.capacity = 1000 * MIB;
	OK(cuMemGetInfo_v2(&bytes, &total));
	CHECK(bytes == 1000 * MIB && total == device->total_bytes);
	OK(cuMemAlloc_v2(&pointer, 300 * MIB));
	OK(cuMemGetInfo_v2(&bytes, &total));
	CHECK(bytes == 700 * MIB);
	room.capacity = 100 * MIB;
	OK(cuMemGetInfo_v2(&bytes, &total));
	CHECK(bytes == 0);
}

/* A hundred thousand allocations, each found by an address inside, and freed in another order. */
void many(void)
{
	static CUdeviceptr pointers[100000];
	CUdeviceptr base;
	size_t bytes;

	begin();
	for (int i = 0; i < 100000; i++)
		OK(cuMemAlloc_v2(&pointers[i], i % 100 ? 1024 : 2 * MIB));
	for (int i = 0; i < 100000; i++) {
		OK(cuMemGetAddressRange_v2(&base, &bytes, pointers[i] + 1000));
		CHECK(base == pointers[i]);
	}
	for (int i = 0; i < 100000; i++)
		OK(cuMemFree_v2(pointers[(i * 7919ull) % 100000]));
	CHECK(room.footprint == 2 * MIB);
}
