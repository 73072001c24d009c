/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process begins: initialization, devices, contexts, forks, and how entry points are looked
 * up.
 */
#include "semantics.h"

void before_init(void)
{
	CUdevice device;
	CUcontext current;
	const char *text;
	int number;
	void *address;

	SHOW(cuDeviceGet(&device, 0));
	SHOW(cuDeviceGetCount(&number));
	SHOW(cuCtxGetCurrent(&current));
	SHOW(cuDriverGetVersion(&number));
	SHOW(cuDriverGetVersion(NULL));
	SHOW(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
	SHOW(cuGetErrorName(12345, &text));
	TRUTH(text == NULL);
	SHOW(cuGetProcAddress("cuInit", &address, 12000, 0));
	SHOW(cuInit(1));
	SHOW(cuInit(0));
	SHOW(cuInit(0));
}

void devices(void)
{
	CUdevice device;
	CUuuid uuid;
	size_t bytes;
	int value;
	char text[64];

	MUST(cuInit(0));
	SHOW(cuDeviceGet(&device, 999));
	SHOW(cuDeviceGet(&device, -1));
	SHOW(cuDeviceGet(NULL, 0));
	SHOW(cuDeviceGetName(text, 4, 0));
	TRUTH(strlen(text) == 3);
	SHOW(cuDeviceGetAttribute(&value, 999, 0));
	SHOW(cuDeviceGetAttribute(&value, 0, 0));
	SHOW(cuDeviceGetAttribute(&value, 1, 99));
	SHOW(cuDeviceGetAttribute(NULL, 1, 0));
	SHOW(cuDeviceTotalMem_v2(NULL, 0));
	SHOW(cuDeviceTotalMem_v2(&bytes, 99));
	SHOW(cuDeviceGetUuid_v2(&uuid, 99));
	SHOW(cuDeviceGetUuid_v2(NULL, 0));
}

void contexts(void)
{
	CUcontext one, two, got;
	CUdevice device;
	unsigned int flags;
	int active;
	size_t free_bytes, total;
	CUdeviceptr p;

	MUST(cuInit(0));
	SHOW(cuCtxGetCurrent(&got));
	TRUTH(got == NULL);
	SHOW(cuCtxGetDevice(&device));
	SHOW(cuMemAlloc_v2(&p, 4096));
	SHOW(cuMemGetInfo_v2(&free_bytes, &total));
	SHOW(cuCtxSynchronize());
	SHOW(cuCtxPopCurrent_v2(&got));
	SHOW(cuCtxSetCurrent(NULL));
	SHOW(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUTH(active == 0);
	SHOW(cuDevicePrimaryCtxRelease_v2(0));
	SHOW(cuDevicePrimaryCtxReset_v2(0));
	SHOW(cuDevicePrimaryCtxRetain(&one, 99));
	SHOW(cuDevicePrimaryCtxRetain(NULL, 0));
	SHOW(cuDevicePrimaryCtxRetain(&one, 0));
	SHOW(cuDevicePrimaryCtxRetain(&two, 0));
	TRUTH(one == two);
	SHOW(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUTH(active == 1);
	SHOW(cuCtxSetCurrent(one));
	SHOW(cuCtxGetDevice(&device));
	SHOW(cuCtxGetDevice(NULL));
	SHOW(cuCtxDestroy_v2(one));
	SHOW(cuCtxCreate_v2(&two, 0, 0));
	SHOW(cuCtxGetCurrent(&got));
	TRUTH(got == two);
	SHOW(cuCtxDestroy_v2(two));
	SHOW(cuCtxGetCurrent(&got));
	TRUTH(got == one);
	SHOW(cuCtxPushCurrent_v2(one));
	SHOW(cuCtxPopCurrent_v2(&got));
	TRUTH(got == one);
	SHOW(cuDevicePrimaryCtxRelease_v2(0));
	SHOW(cuMemAlloc_v2(&p, 4096));
	SHOW(cuDevicePrimaryCtxRelease_v2(0));
	SHOW(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUTH(active == 0);
	SHOW(cuMemAlloc_v2(&p, 4096));
	SHOW(cuCtxCreate_v2(&two, 0x4000, 0));
	SHOW(cuCtxCreate_v2(NULL, 0, 0));
	SHOW(cuCtxCreate_v2(&two, 0, 99));
}

void resolving(void)
{
	static const struct {
		const char *name;
		int version;
		cuuint64_t flags;
	} questions[] = {
		{ "cuMemAlloc", 2000, 0 },
		{ "cuMemAlloc", 12000, 0 },
		{ "cuMemAlloc_v2", 12000, 0 },
		{ "", 0, 0 },
		{ "", 12040, 0 },
		{ "nonsense", 12000, 0 },
		{ "cuInit", 0, 0 },
		{ "cuInit", 1000, 0 },
		{ "cuMemAllocAsync", 11000, 0 },
		{ "cuMemAllocAsync", 11020, 2 },
		{ "cuMemAllocAsync", 11020, 1 },
		{ "cuMemAllocAsync", 11020, 3 },
		{ "cuMemAllocAsync", 11020, 4 },
		{ "cuStreamBeginCapture", 10000, 2 },
		{ "cuStreamBeginCapture", 12000, 2 },
		{ "cuGetProcAddress", 11030, 0 },
		{ "cuGetProcAddress", 12000, 0 },
		{ "cuLaunchKernel", 3000, 0 },
		{ "cuLaunchKernel", 4000, 2 },
		{ "cuLaunchKernel", 7000, 2 },
		{ "cuCtxCreate", 99999, 0 },
		{ "cuInit", 13010, 0 },
		{ "cuInit", 13050, 0 },
		{ "cuInit", 14000, 0 },
		{ "cuInit", 20000, 0 },
		{ "cuStreamBeginCapture", 12000, 3 },
	};
	CUdriverProcAddressQueryResult found;
	void *address;

	MUST(cuInit(0));
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		CUresult first, second;

		found = 77;
		address = (void *)1;
		first = cuGetProcAddress_v2(questions[i].name, &address, questions[i].version,
					    questions[i].flags, &found);
		printf("%s: v2 %s %d %d = %d, %s, status %d\n", now, questions[i].name,
		       questions[i].version, (int)questions[i].flags, (int)first,
		       !address		      ? "NULL"
		       : address == (void *)1 ? "untouched"
					      : "address",
		       found);
		address = (void *)1;
		second = cuGetProcAddress(questions[i].name, &address, questions[i].version,
					  questions[i].flags);
		printf("%s: v1 %s %d %d = %d, %s\n", now, questions[i].name, questions[i].version,
		       (int)questions[i].flags, (int)second,
		       !address		      ? "NULL"
		       : address == (void *)1 ? "untouched"
					      : "address");
	}
	SHOW(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, NULL));
	TRUTH(address == (void *)cuMemAlloc_v2);
	MUST(cuGetProcAddress_v2("cuStreamBeginCapture", &address, 12000, 2, NULL));
	TRUTH(address == (void *)cuStreamBeginCapture_v2_ptsz);
	MUST(cuGetProcAddress_v2("cuMemcpy", &address, 12000, 2, NULL));
	TRUTH(address == (void *)cuMemcpy_ptds);
	MUST(cuGetProcAddress_v2("cuMemcpy", &address, 12000, 0, NULL));
	TRUTH(address == (void *)cuMemcpy);
	MUST(cuGetProcAddress_v2("cuMemcpy", &address, 12000, 3, NULL));
	TRUTH(address == (void *)cuMemcpy_ptds);
}

void after_fork(void)
{
	CUcontext current;
	CUdevice device;
	int version, status;
	pid_t pid;

	begin();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		SHOW(cuDeviceGet(&device, 0));
		SHOW(cuCtxGetCurrent(&current));
		SHOW(cuCtxSynchronize());
		SHOW(cuInit(0));
		SHOW(cuDriverGetVersion(&version));
		exit(0);
	}
	waitpid(pid, &status, 0);
	SHOW(cuCtxSynchronize());
}
