/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that concern several devices, or have something to do after the call: on several devices
 * at once, of graphs. No state.
 */
#include "driver/driver.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/pass.h"
#include "gate/streams.h"
#include "memory/memory.h"

static uint64_t of_all(const CUDA_LAUNCH_PARAMS_v1 *launches, unsigned int count)
{
	uint64_t mask = 0;

	for (unsigned int i = 0; launches && i < count; i++) {
		const struct nvs_device *device = nvs_device_of(launches[i].stream);

		mask |= device ? 1ULL << device->ordinal : 0;
	}
	return mask;
}

NVS_PASSING_HOOK(cuLaunchCooperativeKernelMultiDevice,
		 (CUDA_LAUNCH_PARAMS_v1 * launchParamsList, unsigned int numDevices,
		  unsigned int flags),
		 (launchParamsList, numDevices, flags),
		 NVS_GATE_ENTER_FOUND(launchParamsList &&numDevices ? launchParamsList[0].stream
								    : NULL,
				      of_all(launchParamsList, numDevices)))

/* A graph with memory nodes allocates when it is launched: the account must look again. */
#define GRAPH_LAUNCH(symbol, stream)                                                           \
	NVS_EXPORT(symbol, CUgraphExec hGraphExec, CUstream hStream)                           \
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
		    pass.device && nvs_door_try()) {                                           \
			nvs_memory_graphs_ran(pass.device);                                    \
			nvs_door_leave();                                                      \
		}                                                                              \
		return result;                                                                 \
	}

GRAPH_LAUNCH(cuGraphLaunch, hStream)
GRAPH_LAUNCH(cuGraphLaunch_ptsz, NVS_PER_THREAD(hStream))
