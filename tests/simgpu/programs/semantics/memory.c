/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of all kinds, and what is told about it. */
#include "semantics.h"

void memory(void)
{
	CUdeviceptr p, q, base;
	size_t bytes, pitch;
	char host[256];
	void *pinned;

	begin();
	SHOW(cuMemAlloc_v2(&p, 0));
	SHOW(cuMemAlloc_v2(NULL, 16));
	SHOW(cuMemAlloc_v2(&p, (size_t)1 << 50));
	SHOW(cuMemAlloc_v2(&p, 1000));
	TRUTH(p % 256 == 0);
	SHOW(cuMemGetAddressRange_v2(&base, &bytes, p + 10));
	TRUTH(base == p && bytes == 1000);
	SHOW(cuMemGetAddressRange_v2(NULL, NULL, p));
	SHOW(cuMemGetAddressRange_v2(&base, &bytes, 4096));
	SHOW(cuMemFree_v2(p + 16));
	SHOW(cuMemFree_v2(0));
	SHOW(cuMemFree_v2((CUdeviceptr)(uintptr_t)host));
	SHOW(cuMemcpyHtoD_v2(p, host, 256));
	SHOW(cuMemcpyHtoD_v2(p, NULL, 256));
	SHOW(cuMemcpyHtoD_v2(0, host, 256));
	SHOW(cuMemcpyHtoD_v2(p, host, 0));
	SHOW(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)host, host, 16));
	SHOW(cuMemcpyDtoH_v2(host, 0x1234, 16));
	SHOW(cuMemcpyDtoD_v2(p, 0x1234, 16));
	SHOW(cuMemcpy(p, (CUdeviceptr)(uintptr_t)host, 16));
	SHOW(cuMemsetD8_v2(p, 1, 1000));
	SHOW(cuMemsetD8_v2(0, 1, 1000));
	SHOW(cuMemsetD8_v2(p, 1, 0));
	SHOW(cuMemsetD32_v2(p + 1, 1, 4));
	SHOW(cuMemsetD32_v2(p, 1, MIB(64)));
	SHOW(cuMemFree_v2(p));
	SHOW(cuMemFree_v2(p));
	SHOW(cuMemcpyDtoH_v2(host, p, 16));
	SHOW(cuMemAllocPitch_v2(&q, &pitch, 1000, 10, 4));
	TRUTH(pitch == 1024);
	SHOW(cuMemAllocPitch_v2(&q, &pitch, 1000, 10, 3));
	SHOW(cuMemAllocManaged(&q, 4096, 0));
	SHOW(cuMemAllocManaged(&q, 0, CU_MEM_ATTACH_GLOBAL));
	SHOW(cuMemAllocManaged(&q, 4096, CU_MEM_ATTACH_GLOBAL));
	*(volatile int *)(uintptr_t)q = 42;
	SHOW(cuMemFree_v2(q));
	SHOW(cuMemHostAlloc(&pinned, 0, 0));
	SHOW(cuMemHostAlloc(&pinned, 4096, 0));
	SHOW(cuMemFreeHost(host));
	SHOW(cuMemFree_v2((CUdeviceptr)(uintptr_t)pinned));
	SHOW(cuMemHostGetDevicePointer_v2(&p, pinned, 0));
	SHOW(cuMemHostGetDevicePointer_v2(&p, host, 0));
	SHOW(cuMemFreeHost(pinned));
	SHOW(cuMemFreeHost(pinned));
}

void registering(void)
{
	char *host = mmap(NULL, MIB(4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr p;
	unsigned int flags;

	begin();
	SHOW(cuMemHostUnregister(host));
	SHOW(cuMemHostRegister_v2(NULL, 4096, 0));
	SHOW(cuMemHostRegister_v2(host, 0, 0));
	SHOW(cuMemHostRegister_v2(host, MIB(2), 0));
	SHOW(cuMemHostRegister_v2(host, MIB(2), 0));
	SHOW(cuMemHostRegister_v2(host + MIB(1), MIB(2), 0));
	SHOW(cuMemHostGetDevicePointer_v2(&p, host, 0));
	SHOW(cuMemHostGetFlags(&flags, host));
	SHOW(cuMemHostUnregister(host + 4096));
	SHOW(cuMemHostUnregister(host));
	SHOW(cuMemHostUnregister(host));
}

void pointers(void)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					     CU_POINTER_ATTRIBUTE_IS_MANAGED };
	unsigned int type = 77, managed = 77;
	int ordinal = 77;
	void *answers[] = { &type, &ordinal, &managed };
	CUdeviceptr p, m, start;
	void *pinned, *host;
	size_t bytes;
	char local[64];

	begin();
	MUST(cuMemAlloc_v2(&p, 10000));
	MUST(cuMemAllocManaged(&m, 10000, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemHostAlloc(&pinned, 10000, 0));
	SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	TRUTH(type == CU_MEMORYTYPE_DEVICE);
	SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m));
	TRUTH(type == CU_MEMORYTYPE_DEVICE);
	SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				   (CUdeviceptr)(uintptr_t)pinned));
	TRUTH(type == CU_MEMORYTYPE_HOST);
	SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				   (CUdeviceptr)(uintptr_t)local));
	SHOW(cuPointerGetAttribute(&type, 999, p));
	SHOW(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	SHOW(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 5));
	TRUTH(start == p);
	SHOW(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 5));
	TRUTH(bytes == 10000);
	SHOW(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
	SHOW(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, m));
	SHOW(cuPointerGetAttributes(3, attributes, answers, p));
	TRUTH(type == CU_MEMORYTYPE_DEVICE && ordinal == 0 && (managed & 0xff) == 0);
	SHOW(cuPointerGetAttributes(3, attributes, answers, (CUdeviceptr)(uintptr_t)local));
	TRUTH(type == 0);
	TRUTH(ordinal == -2);
	SHOW(cuPointerGetAttributes(3, attributes, answers, m));
	TRUTH((managed & 0xff) == 1);
}

void pools(void)
{
	CUmemPoolProps_v1 props = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool, standard, chosen;
	CUdeviceptr p, q;
	uint64_t value;
	int reuse;
	char host[16];

	begin();
	SHOW(cuDeviceGetDefaultMemPool(&standard, 0));
	SHOW(cuDeviceGetMemPool(&chosen, 0));
	TRUTH(standard == chosen);
	SHOW(cuMemPoolDestroy(standard));
	SHOW(cuMemPoolCreate(&pool, &props));
	SHOW(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	TRUTH(value == 0);
	SHOW(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
	TRUTH(reuse == 1);
	SHOW(cuMemPoolGetAttribute(pool, 99, &value));
	SHOW(cuMemAllocAsync(&p, MIB(1), stream));
	SHOW(cuMemPoolGetAttribute(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	TRUTH(value == MIB(1));
	SHOW(launch_fill(p, 5, 16, stream));
	SHOW(cuMemFreeAsync(p, stream));
	SHOW(cuMemFreeAsync(p, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemAllocFromPoolAsync(&q, MIB(1), pool, stream));
	SHOW(cuMemsetD8Async(q, 5, 16, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemcpyDtoH_v2(host, q, 16));
	TRUTH(host[3] == 5);
	SHOW(cuMemFree_v2(q));
	SHOW(cuMemAllocAsync(&p, 0, stream));
	TRUTH(p == 0);
	SHOW(cuMemFreeAsync(0, stream));
	SHOW(cuMemFreeAsync(0x1234, stream));
	SHOW(cuMemAlloc_v2(&p, MIB(1)));
	SHOW(cuMemFreeAsync(p, stream));
	SHOW(cuStreamSynchronize(stream));
	value = 0;
	SHOW(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	SHOW(cuMemPoolTrimTo(pool, 0));
	SHOW(cuMemPoolDestroy(pool));
}

void shaped_copies(void)
{
	CUDA_MEMCPY2D_v2 plane = { .src_type = CU_MEMORYTYPE_HOST,
				   .dst_type = CU_MEMORYTYPE_DEVICE,
				   .width_bytes = 16,
				   .height = 4 };
	unsigned char host[256], back[256];
	CUdeviceptr p;

	begin();
	for (int i = 0; i < 256; i++)
		host[i] = (unsigned char)i;
	MUST(cuMemAlloc_v2(&p, 65536));
	plane.src_host = host;
	plane.src_pitch = 32;
	plane.dst_device = p;
	plane.dst_pitch = 512;
	SHOW(cuMemcpy2D_v2(&plane));
	SHOW(cuMemcpyDtoH_v2(back, p + 512, 16));
	TRUTH(back[0] == 32 && back[15] == 47);
	plane.src_pitch = 8;
	SHOW(cuMemcpy2D_v2(&plane));
	plane.src_pitch = 32;
	plane.dst_type = 9;
	SHOW(cuMemcpy2D_v2(&plane));
	plane.dst_type = CU_MEMORYTYPE_DEVICE;
	plane.src_pitch = 0;
	SHOW(cuMemcpy2D_v2(&plane));
	plane.src_pitch = 32;
	plane.width_bytes = 0;
	SHOW(cuMemcpy2D_v2(&plane));
	SHOW(cuMemcpy2D_v2(NULL));
}
