/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the management library's binary interface that the simulated one has, and what its
 * files share.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../shared/state.h"

typedef int nvmlReturn_t;
typedef struct nvml_device *nvmlDevice_t; /* NVML_GPU_MASK, and see mig.c */
typedef struct nvml_event_set *nvmlEventSet_t;

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999
};

#define NVML_EVENT_XID 0x8ull
#define NVML_NOT_IN_MIG 0xffffffffu
#define NVML_MIG_DEVICES 7
#define NVML_PROFILE_BYTES 24
#define NVML_NAME_BYTES 96
/* Of a handle, what says the GPU: its index plus one. */
#define NVML_GPU_MASK 0xffu

struct nvml_memory {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
};

struct nvml_memory_v2 {
	unsigned int version;
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
};

struct nvml_process_v1 {
	unsigned int pid;
	unsigned long long used_bytes;
};

struct nvml_process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

struct nvml_utilization {
	unsigned int gpu_percent;
	unsigned int memory_percent;
};

struct nvml_pci {
	char legacy_bus_id[16];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int device_id;
	unsigned int subsystem_id;
	char bus_id[32];
};

struct nvml_event {
	nvmlDevice_t device;
	unsigned long long type;
	unsigned long long data; /* the XID */
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

#define NVML_EXPORT __attribute__((visibility("default")))

/* init.c */

/* The shared state; NULL before nvmlInit and after the last nvmlShutdown. */
struct sim_state *nvml_state(void);
/*
 * The index behind a handle; NVML_ERROR_UNINITIALIZED or NVML_ERROR_INVALID_ARGUMENT if there is
 * none, and what sick.c says is wrong with the library or the device. That of a MIG device is its
 * GPU's.
 */
nvmlReturn_t nvml_index(nvmlDevice_t device, int *index);
nvmlDevice_t nvml_handle(int index);
nvmlReturn_t nvml_put_text(char *out, unsigned int room, const char *text);

/* mig.c */

/* Which MIG device of its GPU it is, from 0 on; -1: it is a GPU. */
int nvml_mig_number(nvmlDevice_t device);
nvmlDevice_t nvml_mig_handle(int index, int number);
/* The UUID of a GPU's MIG device. */
void nvml_write_mig_uuid(const uint8_t gpu[16], int number, char text[SIM_UUID_TEXT_BYTES]);
/* The memory of a MIG device of a GPU; NVML_ERROR_NOT_FOUND when it is there no more. */
nvmlReturn_t nvml_mig_memory(nvmlDevice_t device, int index, struct nvml_memory *memory);

/* sick.c */

/* What every call answers now, if that is no success; returns only when the library does not hang.
 */
nvmlReturn_t nvml_trouble(const struct sim_state *state);
/* Whether the device has fallen off the bus. */
bool nvml_is_lost(const struct sim_state *state, int index);
/* Whether the device's memory can be asked for. */
bool nvml_has_memory(const struct sim_state *state, int index);
/* How many MIG devices it has, and their profiles; -1: it is not in MIG mode. */
int nvml_mig_devices(const struct sim_state *state, int index,
		     char profiles[NVML_MIG_DEVICES][NVML_PROFILE_BYTES]);
