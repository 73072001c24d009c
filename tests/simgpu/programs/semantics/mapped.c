/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory: what is said about it, and what happens to those who use it too late. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "semantics.h"

/* 4 MiB mapped at the beginning of a reservation of 16 MiB, with all rights. */
static CUdeviceptr map_some(CUmemGenericAllocationHandle_v1 *handle, int handle_types)
{
	CUmemAllocationProp_v1 prop = on_device();
	CUmemAccessDesc_v1 access = all_rights();
	CUdeviceptr at;

	prop.handle_types = handle_types;
	MUST(cuMemCreate(handle, MIB(4), &prop, 0));
	MUST(cuMemAddressReserve(&at, MIB(16), 0, 0, 0));
	MUST(cuMemMap(at, MIB(4), 0, *handle, 0));
	MUST(cuMemSetAccess(at, MIB(4), &access, 1));
	return at;
}

static CUresult launch_touch(CUdeviceptr at, uint64_t bytes, uint64_t ns)
{
	void *params[] = { &at, &bytes, &ns };
	CUfunction touch;

	MUST(cuModuleGetFunction(&touch, module, "nvs_touch"));
	return cuLaunchKernel(touch, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

/* Every attribute that has a number, as far as it does not depend on the run. */
static void show_attributes(const char *state, CUdeviceptr base, CUdeviceptr p)
{
	for (int attribute = 1; attribute <= 20; attribute++) {
		uint64_t value[2] = { 0, 0 };
		CUresult result;

		if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			continue;
		result = cuPointerGetAttribute(value, attribute, p);
		if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
		    attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
			value[0] = value[0] != 0;
		else if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
			value[0] = value[0] == 0 ? 0 : value[0] == (uintptr_t)context ? 1 : 2;
		else if (value[0] >= base && value[0] < base + MIB(64))
			value[0] -= base;
		printf("%s: %s: attribute %d: %d, %#llx\n", now, state, attribute, (int)result,
		       (unsigned long long)value[0]);
	}
}

void mapped_attributes(void)
{
	CUmemAccessDesc_v1 access = all_rights();
	CUmemGenericAllocationHandle_v1 handle;
	CUmemLocation location = access.location;
	CUdeviceptr at;
	unsigned long long flags = 7;
	unsigned int sync = 1;
	size_t bytes = 7;
	CUdeviceptr base;

	begin();
	at = map_some(&handle, 0);
	show_attributes("mapped", at, at + 4096);
	show_attributes("reserved", at, at + MIB(8));
	SHOW(cuMemGetAddressRange_v2(&base, &bytes, at + MIB(8)));
	SHOW(cuMemGetAccess(&flags, &location, at + MIB(8)));
	SHOW(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	SHOW(cuMemSetAccess(at, MIB(4), &access, 1));
	show_attributes("no rights", at, at + 4096);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	SHOW(cuMemSetAccess(at, MIB(4), &access, 1));
	SHOW(cuMemGetAccess(&flags, &location, at));
	TRUTH(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
	MUST(cuMemUnmap(at, MIB(4)));
	show_attributes("unmapped", at, at + 4096);
	SHOW(cuMemGetAddressRange_v2(&base, &bytes, at));
	SHOW(cuMemGetAccess(&flags, &location, at));
	MUST(cuMemAddressFree(at, MIB(16)));
	show_attributes("freed", at, at + 4096);
}

void allocated_attributes(void)
{
	CUdeviceptr p;

	begin();
	MUST(cuMemAlloc_v2(&p, MIB(4)));
	show_attributes("allocated", p, p + 4096);
	MUST(cuMemFree_v2(p));
	show_attributes("freed", p, p + 4096);
}

void mapped_handles(void)
{
	CUmemAccessDesc_v1 access = all_rights();
	CUmemGenericAllocationHandle_v1 handle, again;
	CUmemAllocationProp_v1 got;
	CUdeviceptr at;
	CUipcMemHandle_v1 ipc;

	begin();
	at = map_some(&handle, 0);
	SHOW(cuMemRelease(handle));
	SHOW(cuMemRelease(handle));
	SHOW(cuMemMap(at + MIB(8), MIB(4), 0, handle, 0));
	SHOW(cuMemGetAllocationPropertiesFromHandle(&got, handle));
	SHOW(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + MIB(1))));
	TRUTH(again == handle);
	SHOW(cuMemMap(at + MIB(8), MIB(4), 0, again, 0));
	SHOW(cuMemSetAccess(at, MIB(12), &access, 1));
	SHOW(cuMemUnmap(at, MIB(12)));
	SHOW(cuMemRelease(again));
	SHOW(cuMemRelease(again));
	SHOW(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at));
	at = map_some(&handle, 0);
	SHOW(cuIpcGetMemHandle(&ipc, at));
	SHOW(cuMemFree_v2(at));
	SHOW(cuMemAddressFree(at, MIB(16)));
}

/* Work that was queued before its memory was unmapped, and comes after it. */
static CUdeviceptr unmap_behind_spin(CUresult (*queue)(CUdeviceptr at))
{
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;

	begin();
	at = map_some(&handle, 0);
	MUST(launch_spin(300000000, stream));
	MUST(queue(at));
	SHOW(cuMemUnmap(at, MIB(4)));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuCtxSynchronize());
	SHOW(cuMemRelease(handle));
	return at;
}

static CUresult queue_fill(CUdeviceptr at)
{
	return launch_fill(at, 5, 16, stream);
}

static CUresult queue_memset(CUdeviceptr at)
{
	return cuMemsetD8Async(at, 5, MIB(4), stream);
}

static void *pinned(void)
{
	void *host;

	MUST(cuMemHostAlloc(&host, MIB(4), 0));
	return host;
}

static CUresult queue_copy_out(CUdeviceptr at)
{
	return cuMemcpyDtoHAsync_v2(pinned(), at, MIB(4), stream);
}

static CUresult queue_copy_in(CUdeviceptr at)
{
	return cuMemcpyHtoDAsync_v2(at, pinned(), MIB(4), stream);
}

static CUresult queue_graph(CUdeviceptr at)
{
	CUgraphExec executable;
	CUgraph graph;

	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(launch_fill(at, 5, 16, stream));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
	return cuGraphLaunch(executable, stream);
}

void unmapped_before_kernel(void)
{
	unmap_behind_spin(queue_fill);
}

void unmapped_before_memset(void)
{
	unmap_behind_spin(queue_memset);
}

void unmapped_before_copy_out(void)
{
	unmap_behind_spin(queue_copy_out);
}

void unmapped_before_copy_in(void)
{
	unmap_behind_spin(queue_copy_in);
}

void unmapped_before_graph(void)
{
	unmap_behind_spin(queue_graph);
}

/* At the call: the memory is gone already. */
void unmapped_at_call(void)
{
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;
	void *host;

	begin();
	host = pinned();
	at = map_some(&handle, 0);
	MUST(cuMemUnmap(at, MIB(4)));
	SHOW(cuMemcpyDtoHAsync_v2(host, at, 16, stream));
	SHOW(cuMemcpyHtoDAsync_v2(at, host, 16, stream));
	SHOW(cuMemsetD8Async(at, 5, 16, stream));
	SHOW(launch_fill(at, 5, 16, stream));
	SHOW(cuStreamSynchronize(stream));
}

/* A kernel uses memory all the time, and it is unmapped meanwhile. */
void unmapped_under_kernel(void)
{
	struct timespec shortly = { .tv_nsec = 50000000 };
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;

	begin();
	at = map_some(&handle, 0);
	MUST(launch_touch(at, MIB(4), 300000000));
	nanosleep(&shortly, NULL);
	SHOW(cuMemUnmap(at, MIB(4)));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuCtxSynchronize());
}

/* Rights that are taken away while a kernel uses the memory. */
void no_rights_under_kernel(void)
{
	struct timespec shortly = { .tv_nsec = 50000000 };
	CUmemAccessDesc_v1 access = all_rights();
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;

	begin();
	at = map_some(&handle, 0);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	MUST(launch_touch(at, MIB(4), 300000000));
	nanosleep(&shortly, NULL);
	SHOW(cuMemSetAccess(at, MIB(4), &access, 1));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuCtxSynchronize());
}

void read_only_kernel(void)
{
	CUmemAccessDesc_v1 access = all_rights();
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;
	char host[16];

	begin();
	at = map_some(&handle, 0);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	SHOW(cuMemSetAccess(at, MIB(4), &access, 1));
	SHOW(cuMemcpyDtoH_v2(host, at, 16));
	SHOW(cuMemsetD8_v2(at, 5, 16));
	SHOW(cuCtxSynchronize());
	SHOW(launch_fill(at, 5, 16, stream));
	SHOW(cuStreamSynchronize(stream));
}

void registering_files(void)
{
	int file = memfd_create("host", 0);
	CUmemGenericAllocationHandle_v1 handle;
	char *shared, *reads, *hole;
	CUdeviceptr at, p;
	unsigned int flags = 77;

	begin();
	MUST(ftruncate(file, MIB(4)) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
	shared = mmap(NULL, MIB(4), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	reads = mmap(NULL, MIB(4), PROT_READ, MAP_SHARED, file, 0);
	hole = mmap(NULL, MIB(4), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	at = map_some(&handle, 0);
	SHOW(cuMemHostRegister_v2(hole, MIB(4), 0));
	munmap(hole, MIB(4));
	SHOW(cuMemHostRegister_v2(hole, MIB(4), 0));
	SHOW(cuMemHostRegister_v2(reads, MIB(4), 0));
	SHOW(cuMemHostRegister_v2(shared, MIB(4), CU_MEMHOSTREGISTER_PORTABLE));
	SHOW(cuMemHostGetFlags(&flags, shared));
	printf("%s: flags %u\n", now, flags);
	SHOW(cuMemHostGetDevicePointer_v2(&p, shared, 0));
	TRUTH(p == (CUdeviceptr)(uintptr_t)shared);
	SHOW(cuMemsetD8_v2(at, 5, MIB(4)));
	SHOW(cuMemcpyDtoHAsync_v2(shared, at, MIB(4), stream));
	SHOW(cuStreamSynchronize(stream));
	TRUTH(shared[MIB(4) - 1] == 5);
	SHOW(launch_fill((CUdeviceptr)(uintptr_t)shared, 7, 4, stream));
	SHOW(cuStreamSynchronize(stream));
	TRUTH(shared[0] == 7);
	SHOW(cuMemHostUnregister(shared));
	SHOW(cuMemHostRegister_v2(shared + 100, 5000, 0));
	SHOW(cuMemHostRegister_v2(shared + MIB(1), MIB(1), 0));
	SHOW(cuMemHostRegister_v2(shared, 50, 0));
	SHOW(cuMemHostUnregister(shared + 100));
	SHOW(cuMemHostUnregister(shared + MIB(1)));
}
