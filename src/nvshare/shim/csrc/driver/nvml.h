/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The management library (NVML): its own functions, and the hooks that stand for them.
 *
 * No name of it is exported, so that no program believes that it is there when it is not. Programs
 * look its functions up by dlsym, and get hooks in place of NVML's own. Where the environment says
 * a memory limit, NVML's symbol table is redirected as well, for programs that are linked with it
 * and those that bind its names after they have opened it. Only the first library of that name in
 * load order is meant; what is found anywhere else is left alone.
 */
#pragma once

#include "driver/nvml_abi.h"

/* The versions of a list of processes. */
#define NVS_NVML_LIST(HOOK, symbol)                                                            \
	HOOK(symbol, (void *device, unsigned int *count, struct nvs_nvml_process_v1 *infos))   \
	HOOK(symbol##_v2, (void *device, unsigned int *count, struct nvs_nvml_process *infos)) \
	HOOK(symbol##_v3, (void *device, unsigned int *count, struct nvs_nvml_process *infos))

/* nvmlDevice_t is a pointer to what only NVML knows. */
#define NVS_NVML_HOOKS(HOOK)                                                                \
	HOOK(nvmlDeviceGetMemoryInfo, (void *device, struct nvs_nvml_memory *memory))       \
	HOOK(nvmlDeviceGetMemoryInfo_v2, (void *device, struct nvs_nvml_memory_v2 *memory)) \
	NVS_NVML_LIST(HOOK, nvmlDeviceGetComputeRunningProcesses)                           \
	NVS_NVML_LIST(HOOK, nvmlDeviceGetGraphicsRunningProcesses)                          \
	NVS_NVML_LIST(HOOK, nvmlDeviceGetMPSComputeRunningProcesses)
/* What the hooks call besides. */
#define NVS_NVML_CALLS(CALL) \
	CALL(nvmlDeviceGetUUID, (void *device, char *uuid, unsigned int length))

enum nvs_nvml_function {
#define PLACE(symbol, parameters) NVS_NVML_AT_##symbol,
	NVS_NVML_HOOKS(PLACE)
	NVS_NVML_CALLS(PLACE)
#undef PLACE
		NVS_NVML_FUNCTIONS
};

#define TYPE(symbol, parameters) typedef int nvs_##symbol##_call parameters;
NVS_NVML_HOOKS(TYPE)
NVS_NVML_CALLS(TYPE)
#undef TYPE
#define BODY(symbol, parameters) nvs_##symbol##_call nvs_hook_##symbol;
NVS_NVML_HOOKS(BODY)
#undef BODY

/* NVML's own function; NULL: none is loaded, or it has none. */
void *nvs_nvml_real(enum nvs_nvml_function which);
#define NVS_NVML_REAL(symbol) ((nvs_##symbol##_call *)nvs_nvml_real(NVS_NVML_AT_##symbol))

/* What replaces a function that was found by that name; NULL: nothing does. */
void *nvs_nvml_hook(const char *name, const void *found);
/*
 * An NVML that is loaded stays in memory, and under a memory limit the hooks become what the
 * dynamic loader finds in it. Takes the dynamic loader's lock, so it must not be called while one
 * of ours is held.
 */
void nvs_nvml_look(void);
