/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A management library of one device, 1000 MiB large, of which 100 are reserved and 700 used, and
 * whose UUID is $NVML_UUID. Its processes are $NVML_PROCESSES: PID:BYTES,... Versions of
 * functions call each other, as NVML's own may. MINIMAL: it has the memory function alone.
 */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define INSUFFICIENT_SIZE 7
#define MIB (1ull << 20)

struct memory {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

struct process_v1 {
	unsigned int pid;
	unsigned long long used;
};

struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
	(void)device;
	*memory = (struct memory){ .total = 1000 * MIB, .free = 200 * MIB, .used = 800 * MIB };
	return 0;
}

EXPORT int nvmlInit_v2(void)
{
	return 0;
}

EXPORT int nvmlInitWithFlags(unsigned int flags)
{
	(void)flags;
	return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
	*device = (char *)NULL + 1 + index;
	return 0;
}

#ifndef MINIMAL
EXPORT int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length)
{
	(void)device;
	strncpy(uuid, getenv("NVML_UUID"), length);
	return 0;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory)
{
	struct memory plain;

	nvmlDeviceGetMemoryInfo(device, &plain);
	memory->total = plain.total;
	memory->free = plain.free;
	memory->reserved = 100 * MIB;
	memory->used = plain.used - memory->reserved;
	return 0;
}

/* Returns how many there are. */
static unsigned int read_processes(struct process_v1 *processes, unsigned int room)
{
	const char *text = getenv("NVML_PROCESSES");
	unsigned int count = 0;

	for (char *end; *text; text = *end ? end + 1 : end, count++) {
		struct process_v1 process = { .pid = (unsigned int)strtoul(text, &end, 10) };

		process.used = strtoull(end + 1, &end, 10);
		if (count < room)
			processes[count] = process;
	}
	return count;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned int *count,
						struct process_v1 *processes)
{
	unsigned int room = *count;

	(void)device;
	*count = read_processes(processes, room);
	return *count > room ? INSUFFICIENT_SIZE : 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count,
						   struct process *processes)
{
	struct process_v1 *plain = calloc(*count, sizeof(*plain));
	int result = nvmlDeviceGetComputeRunningProcesses(device, count, plain);

	for (unsigned int i = 0; !result && i < *count; i++)
		processes[i] = (struct process){ plain[i].pid, plain[i].used, 3, 4 };
	free(plain);
	return result;
}
#endif
