/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, launches, streams, events, and errors that stay. */
#include "semantics.h"

void modules(void)
{
	CUmodule other_module;
	CUlibrary library;
	CUfunction function;
	CUkernel kernel;
	CUdeviceptr p;
	size_t bytes, offset;
	unsigned int count;

	begin();
	SHOW(cuModuleGetFunction(&function, module, "no_such_kernel"));
	SHOW(cuModuleGetFunction(&function, module, NULL));
	SHOW(cuModuleLoadData(&other_module, "this is not a module at all, whatever it may be"));
	SHOW(cuModuleLoadData(&other_module, NULL));
	SHOW(cuModuleLoad(&other_module, "/no/such/file"));
	SHOW(cuModuleGetGlobal_v2(&p, &bytes, module, "no_such_variable"));
	SHOW(cuModuleGetFunctionCount(&count, module));
	TRUTH(count == 10);
	SHOW(cuFuncGetParamInfo(fill, 1, &offset, &bytes));
	TRUTH(offset == 8 && bytes == 4);
	SHOW(cuFuncGetParamInfo(fill, 2, &offset, &bytes));
	TRUTH(offset == 16 && bytes == 8);
	SHOW(cuFuncGetParamInfo(fill, 3, &offset, &bytes));
	SHOW(cuLibraryLoadData(&library, read_ptx(), NULL, NULL, 0, NULL, NULL, 0));
	SHOW(cuLibraryGetKernel(&kernel, library, "no_such_kernel"));
	SHOW(cuLibraryGetKernel(&kernel, library, "nvs_spin"));
	SHOW(cuKernelGetFunction(&function, kernel));
	SHOW(cuLibraryUnload(library));
	SHOW(cuModuleUnload(module));
}

void launches(void)
{
	CUdeviceptr p;
	uint32_t value = 7, got[4];
	uint64_t n = 4;
	void *params[] = { &p, &value, &n };
	struct {
		CUdeviceptr p;
		uint32_t value;
		uint64_t n;
	} packed;
	size_t size = sizeof(packed);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
			  &size, CU_LAUNCH_PARAM_END };
	CUlaunchConfig config = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	packed.p = p;
	packed.value = 9;
	packed.n = 4;
	SHOW(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	SHOW(cuLaunchKernel(fill, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	SHOW(cuLaunchKernel(fill, 1, 1, 1, 1025, 1, 1, 0, NULL, params, NULL));
	SHOW(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL));
	SHOW(cuLaunchKernel(fill, 1, 70000, 1, 1, 1, 1, 0, NULL, params, NULL));
	SHOW(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, params, NULL));
	SHOW(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra));
	SHOW(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	SHOW(cuMemcpyDtoH_v2(got, p, sizeof(got)));
	TRUTH(got[0] == 7 && got[3] == 7);
	SHOW(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemcpyDtoH_v2(got, p, sizeof(got)));
	TRUTH(got[0] == 9 && got[3] == 9);
	SHOW(cuLaunchKernelEx(&config, fill, params, NULL));
	SHOW(cuLaunchKernelEx(NULL, fill, params, NULL));
	SHOW(cuLaunchCooperativeKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params));
	SHOW(cuLaunchCooperativeKernel(fill, 1000000, 1, 1, 1, 1, 1, 0, NULL, params));
	SHOW(cuCtxSynchronize());
}

void bad_address(void)
{
	CUdeviceptr p, q;
	CUevent event;
	size_t free_bytes, total;
	char host[16];
	CUdevice device;

	begin();
	MUST(cuMemAlloc_v2(&p, MIB(64)));
	MUST(cuEventCreate(&event, 0));
	MUST(cuMemFree_v2(p));
	SHOW(launch_fill(p, 1, 1000, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuStreamQuery(stream));
	SHOW(cuCtxSynchronize());
	SHOW(cuMemAlloc_v2(&q, 4096));
	SHOW(cuMemGetInfo_v2(&free_bytes, &total));
	SHOW(cuMemcpyDtoH_v2(host, p, 16));
	SHOW(launch_fill(p, 1, 1000, stream));
	SHOW(cuEventRecord(event, stream));
	SHOW(cuEventQuery(event));
	SHOW(cuStreamCreate(&other, 0));
	SHOW(cuCtxGetDevice(&device));
	SHOW(cuDeviceGet(&device, 0));
	SHOW(cuStreamDestroy_v2(stream));
	SHOW(cuEventDestroy_v2(event));
	SHOW(cuModuleUnload(module));
	SHOW(cuDevicePrimaryCtxRelease_v2(0));
}

void misaligned(void)
{
	CUdeviceptr p;

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	SHOW(launch_fill(p + 1, 1, 4, stream));
	SHOW(cuStreamSynchronize(stream));
}

void streams(void)
{
	CUstream low, made;
	CUcontext got;
	int priority, least, greatest;
	unsigned int flags;

	begin();
	SHOW(cuStreamCreate(&made, 2));
	SHOW(cuStreamCreate(NULL, 0));
	SHOW(cuCtxGetStreamPriorityRange(&least, &greatest));
	TRUTH(least == 0 && greatest < 0);
	SHOW(cuStreamCreateWithPriority(&low, 0, 100));
	SHOW(cuStreamGetPriority(low, &priority));
	TRUTH(priority == least);
	SHOW(cuStreamCreateWithPriority(&low, 0, -100));
	SHOW(cuStreamGetPriority(low, &priority));
	TRUTH(priority == greatest);
	SHOW(cuStreamGetFlags(other, &flags));
	TRUTH(flags == CU_STREAM_NON_BLOCKING);
	SHOW(cuStreamGetFlags(NULL, &flags));
	TRUTH(flags == 0);
	SHOW(cuStreamGetCtx(NULL, &got));
	TRUTH(got == context);
	SHOW(cuStreamDestroy_v2(NULL));
	SHOW(cuStreamDestroy_v2(CU_STREAM_LEGACY));
	SHOW(cuStreamQuery(NULL));
	SHOW(cuStreamQuery(CU_STREAM_PER_THREAD));
	SHOW(launch_spin(50000000, stream));
	SHOW(cuStreamQuery(stream));
	SHOW(cuStreamQuery(other));
	SHOW(cuStreamQuery(NULL));
	SHOW(cuStreamSynchronize(NULL));
	SHOW(cuStreamQuery(stream));
	SHOW(launch_spin(50000000, other));
	SHOW(cuStreamSynchronize(NULL));
	SHOW(cuStreamQuery(other));
	SHOW(cuCtxSynchronize());
	SHOW(launch_spin(50000000, NULL));
	SHOW(cuStreamQuery(stream));
	SHOW(launch_spin(0, stream));
	SHOW(cuStreamQuery(stream));
	SHOW(cuStreamQuery(other));
	SHOW(cuStreamDestroy_v2(stream));
	SHOW(cuCtxSynchronize());
}

void events(void)
{
	CUevent first, second, quiet;
	float ms;

	begin();
	SHOW(cuEventCreate(&first, 16));
	SHOW(cuEventCreate(&first, CU_EVENT_INTERPROCESS));
	SHOW(cuEventCreate(&first, 0));
	SHOW(cuEventCreate(&second, 0));
	SHOW(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
	SHOW(cuEventQuery(first));
	SHOW(cuEventSynchronize(first));
	SHOW(cuEventElapsedTime(&ms, first, second));
	SHOW(cuEventRecord(first, stream));
	SHOW(launch_spin(50000000, stream));
	SHOW(cuEventRecord(second, stream));
	SHOW(cuEventRecord(quiet, stream));
	SHOW(cuEventQuery(second));
	SHOW(cuEventElapsedTime(&ms, first, second));
	SHOW(cuStreamWaitEvent(other, second, 0));
	SHOW(launch_spin(0, other));
	SHOW(cuStreamQuery(other));
	SHOW(cuEventSynchronize(second));
	SHOW(cuEventElapsedTime(&ms, first, second));
	TRUTH(ms > 40 && ms < 200);
	SHOW(cuEventElapsedTime(&ms, first, quiet));
	SHOW(cuStreamSynchronize(other));
	SHOW(cuStreamWaitEvent(other, second, 7));
	SHOW(cuEventRecord(NULL, stream));
	SHOW(cuEventDestroy_v2(first));
}

void context_event(void)
{
	CUcontext second;
	CUevent event, foreign;
	CUgraph graph;

	begin();
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cuCtxCreate_v2(&second, 0, 0));
	MUST(cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
	SHOW(cuCtxRecordEvent(context, foreign));
	MUST(cuCtxSetCurrent(context));
	SHOW(launch_spin(50000000, other));
	MUST(cuCtxSetCurrent(second));
	SHOW(cuCtxRecordEvent(context, event));
	SHOW(cuEventQuery(event));
	MUST(cuCtxSetCurrent(context));
	SHOW(cuCtxSynchronize());
	SHOW(cuEventQuery(event));
	SHOW(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SHOW(cuCtxRecordEvent(context, event));
	SHOW(cuStreamEndCapture(stream, &graph));
}

static void callback_that_calls(void *data)
{
	CUdeviceptr p;

	*(int *)data = (int)cuMemAlloc_v2(&p, 4096);
}

void host_functions(void)
{
	int answer = -1;

	begin();
	SHOW(cuLaunchHostFunc(stream, NULL, NULL));
	SHOW(cuLaunchHostFunc(stream, callback_that_calls, &answer));
	SHOW(cuStreamSynchronize(stream));
	printf("%s: a call from a host function = %d\n", now, answer);
}

void foreign_stream(void)
{
	CUcontext second;
	CUstream foreign;
	CUevent event;
	CUdeviceptr p;

	begin();
	MUST(cuMemAlloc_v2(&p, 4096));
	MUST(cuEventCreate(&event, 0));
	MUST(cuCtxCreate_v2(&second, 0, 0));
	MUST(cuStreamCreate(&foreign, 0));
	SHOW(launch_fill(p, 1, 1, foreign));
	SHOW(cuMemsetD8Async(p, 1, 1, stream));
	SHOW(cuMemcpyDtoDAsync_v2(p, p + 100, 4, stream));
	SHOW(cuEventRecord(event, foreign));
	SHOW(cuStreamWaitEvent(foreign, event, 0));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuCtxSetCurrent(context));
	SHOW(launch_fill(p, 1, 1, foreign));
	SHOW(launch_fill(p, 1, 1, stream));
	SHOW(cuCtxSynchronize());
}
