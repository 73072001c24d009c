/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gated functions that concern several devices, or have something to do after the call: copies
 * between contexts, launches on several devices at once, launches of graphs. No state.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/pass.h"
#include "gate/streams.h"
#include "memory/memory.h"

static CUresult enter_pair(struct nvs_pass *pass, CUcontext one, CUcontext other, CUstream stream)
{
	const struct nvs_device *devices[2];
	uint64_t mask = 0;

	/* With one device in use, everything is its. */
	if (atomic_load_explicit(&nvs_device_only, memory_order_acquire))
		return nvs_gate_enter(pass, stream);
	devices[0] = nvs_device_of_context(one);
	devices[1] = nvs_device_of_context(other);
	for (int i = 0; i < 2; i++)
		mask |= devices[i] ? 1ULL << devices[i]->ordinal : 0;
	return mask ? nvs_gate_enter_mask(pass, mask, stream) : nvs_gate_enter(pass, stream);
}

/* `one` and `other` are the contexts of the copy. */
#define PAIR(symbol, one, other, stream, arguments, ...)        \
	NVS_HOOK(symbol, __VA_ARGS__)                           \
	{                                                       \
		struct nvs_pass pass;                           \
		CUresult result;                                \
                                                                \
		if (!NVS_REAL(symbol))                          \
			return CUDA_ERROR_NOT_FOUND;            \
		result = enter_pair(&pass, one, other, stream); \
		if (result != CUDA_SUCCESS)                     \
			return result;                          \
		result = NVS_REAL(symbol) arguments;            \
		nvs_gate_leave(&pass, result);                  \
		return result;                                  \
	}

PAIR(cuMemcpyPeer, dstContext, srcContext, NULL,
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount)
PAIR(cuMemcpyPeer_ptds, dstContext, srcContext, CU_STREAM_PER_THREAD,
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount)
PAIR(cuMemcpyPeerAsync, dstContext, srcContext, hStream,
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount,
     CUstream hStream)
PAIR(cuMemcpyPeerAsync_ptsz, dstContext, srcContext, NVS_PER_THREAD(hStream),
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount,
     CUstream hStream)
PAIR(cuMemcpy3DPeer, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL, NULL,
     (pCopy), const CUDA_MEMCPY3D_PEER_v1 *pCopy)
PAIR(cuMemcpy3DPeer_ptds, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL,
     CU_STREAM_PER_THREAD, (pCopy), const CUDA_MEMCPY3D_PEER_v1 *pCopy)
PAIR(cuMemcpy3DPeerAsync, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL,
     hStream, (pCopy, hStream), const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream hStream)
PAIR(cuMemcpy3DPeerAsync_ptsz, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL,
     NVS_PER_THREAD(hStream), (pCopy, hStream), const CUDA_MEMCPY3D_PEER_v1 *pCopy,
     CUstream hStream)

NVS_HOOK(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS_v1 *launchParamsList,
	 unsigned int numDevices, unsigned int flags)
{
	uint64_t mask = 0;
	struct nvs_pass pass;
	CUresult result;

	if (!NVS_REAL(cuLaunchCooperativeKernelMultiDevice))
		return CUDA_ERROR_NOT_FOUND;
	for (unsigned int i = 0; launchParamsList && i < numDevices; i++) {
		const struct nvs_device *device = nvs_device_of(launchParamsList[i].stream);

		mask |= device ? 1ULL << device->ordinal : 0;
	}
	result = mask ? nvs_gate_enter_mask(&pass, mask, launchParamsList[0].stream)
		      : nvs_gate_enter(&pass, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	result =
		NVS_REAL(cuLaunchCooperativeKernelMultiDevice)(launchParamsList, numDevices, flags);
	nvs_gate_leave(&pass, result);
	return result;
}

/* A graph with memory nodes allocates when it is launched: the account must look again. */
#define GRAPH_LAUNCH(symbol, stream)                                                           \
	NVS_HOOK(symbol, CUgraphExec hGraphExec, CUstream hStream)                             \
	{                                                                                      \
		struct nvs_pass pass;                                                          \
		CUresult result;                                                               \
                                                                                               \
		if (!NVS_REAL(symbol))                                                         \
			return CUDA_ERROR_NOT_FOUND;                                           \
		result = nvs_gate_enter(&pass, stream);                                        \
		if (result != CUDA_SUCCESS)                                                    \
			return result;                                                         \
		result = NVS_REAL(symbol)(hGraphExec, hStream);                                \
		nvs_gate_leave(&pass, result);                                                 \
		if (atomic_load_explicit(&nvs_memory_graphs_allocate, memory_order_relaxed) && \
		    pass.device)                                                               \
			nvs_memory_graphs_ran(pass.device);                                    \
		return result;                                                                 \
	}

GRAPH_LAUNCH(cuGraphLaunch, hStream)
GRAPH_LAUNCH(cuGraphLaunch_ptsz, NVS_PER_THREAD(hStream))
