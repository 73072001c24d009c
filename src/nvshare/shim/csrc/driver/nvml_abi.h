/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the management library's binary interface that its hooks read and write. A test
 * compares it with NVIDIA's own bindings.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
#define NVS_NVML_SUCCESS 0
#define NVS_NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVS_NVML_ERROR_MEMORY 20

#define NVS_NVML_MEMORY_V2 0x02000028
#define NVS_NVML_UUID_BYTES 96 /* as text */

struct nvs_nvml_memory {
	uint64_t total;
	uint64_t free;
	uint64_t used; /* with what the driver reserves */
};

struct nvs_nvml_memory_v2 {
	uint32_t version;
	uint64_t total;
	uint64_t reserved;
	uint64_t free;
	uint64_t used;
};

struct nvs_nvml_process_v1 {
	uint32_t pid;
	uint64_t used_bytes;
};

/* Of versions 2 and 3. */
struct nvs_nvml_process {
	uint32_t pid;
	uint64_t used_bytes; /* UINT64_MAX: not known */
	uint32_t gpu_instance;
	uint32_t compute_instance;
};
/* cdef end */

_Static_assert(sizeof(struct nvs_nvml_memory) == 24, "three numbers");
_Static_assert(sizeof(struct nvs_nvml_memory_v2) == (NVS_NVML_MEMORY_V2 & 0xffffff),
	       "the version says the size");
_Static_assert(sizeof(struct nvs_nvml_process_v1) == 16, "a pid, padding, a number");
_Static_assert(sizeof(struct nvs_nvml_process) == 24, "the same, and two instances");
_Static_assert(offsetof(struct nvs_nvml_process_v1, pid) == 0 &&
		       offsetof(struct nvs_nvml_process, pid) == 0,
	       "every entry of a list begins with the pid");
_Static_assert(offsetof(struct nvs_nvml_process_v1, used_bytes) == 8 &&
		       offsetof(struct nvs_nvml_process, used_bytes) == 8,
	       "and goes on with the bytes");
