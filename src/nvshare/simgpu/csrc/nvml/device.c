/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the management library tells about the devices. Owns nothing: the answers are the shared
 * state's and the records'.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../shared/record.h"
#include "nvml.h"

#define UTILIZATION_NS 1000000000ull
#define UTILIZATION_ENTRIES 65536u
#define MEMORY_V2 0x02000028u

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	const struct sim_state *state = nvml_state();

	if (!state)
		return NVML_ERROR_UNINITIALIZED;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = state->device_count;
	return nvml_trouble(state);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	return nvmlDeviceGetCount_v2(count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	const struct sim_state *state = nvml_state();
	int same;

	if (!state)
		return NVML_ERROR_UNINITIALIZED;
	if (!device || index >= state->device_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = nvml_handle((int)index);
	return nvml_index(*device, &same);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	const struct sim_state *state = nvml_state();
	char profiles[NVML_MIG_DEVICES][NVML_PROFILE_BYTES], text[SIM_UUID_TEXT_BYTES];
	nvmlReturn_t result;

	if (!state)
		return NVML_ERROR_UNINITIALIZED;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = nvml_trouble(state);
	/* As NVML has it: every look-up by UUID fails as long as any device is lost. */
	for (unsigned int i = 0; i < state->device_count && result == NVML_SUCCESS; i++)
		result = nvml_is_lost(state, (int)i) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
	if (result != NVML_SUCCESS)
		return result;
	for (unsigned int i = 0; i < state->device_count; i++) {
		const uint8_t *bytes = sim_state_device(state, (int)i)->uuid;

		sim_devices_write_uuid(bytes, text);
		if (strcmp(text, uuid) == 0) {
			*device = nvml_handle((int)i);
			return NVML_SUCCESS;
		}
		for (int mig = nvml_mig_devices(state, (int)i, profiles) - 1; mig >= 0; mig--) {
			nvml_write_mig_uuid(bytes, mig, text);
			if (strcmp(text, uuid) != 0)
				continue;
			*device = nvml_mig_handle((int)i, mig);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[SIM_UUID_TEXT_BYTES];
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (nvml_mig_number(device) < 0)
		sim_devices_write_uuid(sim_state_device(nvml_state(), index)->uuid, text);
	else
		nvml_write_mig_uuid(sim_state_device(nvml_state(), index)->uuid,
				    nvml_mig_number(device), text);
	return nvml_put_text(uuid, length, text);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	char profiles[NVML_MIG_DEVICES][NVML_PROFILE_BYTES], text[NVML_NAME_BYTES];
	const char *gpu;
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	gpu = sim_state_device(nvml_state(), index)->name;
	if (nvml_mig_number(device) < 0)
		return nvml_put_text(name, length, gpu);
	if (nvml_mig_devices(nvml_state(), index, profiles) <= nvml_mig_number(device))
		return NVML_ERROR_NOT_FOUND;
	snprintf(text, sizeof(text), "%s MIG %s", gpu, profiles[nvml_mig_number(device)]);
	return nvml_put_text(name, length, text);
}

static nvmlReturn_t put_number(nvmlDevice_t device, unsigned int *out)
{
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = (unsigned int)index;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	return put_number(device, index);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *number)
{
	return put_number(device, number);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci *pci)
{
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof(*pci));
	pci->bus = (unsigned int)index + 1;
	snprintf(pci->legacy_bus_id, sizeof(pci->legacy_bus_id), "0000:%02X:00.0",
		 pci->bus & 0xffu);
	snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02X:00.0", pci->bus & 0xffu);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory)
{
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!nvml_has_memory(nvml_state(), index))
		return NVML_ERROR_NOT_SUPPORTED;
	if (nvml_mig_number(device) >= 0)
		return nvml_mig_memory(device, index, memory);
	memory->total = sim_state_device(nvml_state(), index)->total_bytes;
	memory->used = sim_state_used(nvml_state(), index);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device,
						    struct nvml_memory_v2 *memory)
{
	struct nvml_memory plain;
	nvmlReturn_t result;

	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	result = nvmlDeviceGetMemoryInfo(device, &plain);
	if (result != NVML_SUCCESS)
		return result;
	memory->total = plain.total;
	memory->reserved = 0;
	memory->used = plain.used;
	memory->free = plain.free;
	return NVML_SUCCESS;
}

/*
 * The processes that have a context of the device: count, and if there is room for them,
 * themselves.
 */
static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned int *count,
				   struct sim_process *found, bool wanted, int *index)
{
	nvmlReturn_t result = nvml_index(device, index);
	unsigned int room;

	if (result != NVML_SUCCESS)
		return result;
	if (!count || (*count > 0 && !wanted))
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count < SIM_MAX_PROCESSES ? *count : SIM_MAX_PROCESSES;
	*count = sim_state_processes(nvml_state(), *index, found, room);
	return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
							      unsigned int *count,
							      struct nvml_process_v1 *processes)
{
	static __thread struct sim_process found[SIM_MAX_PROCESSES];
	int index;
	nvmlReturn_t result = list_processes(device, count, found, processes, &index);

	for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
		processes[i] =
			(struct nvml_process_v1){ found[i].pid,
						  found[i].used_bytes[nvml_state()->place[index]] };
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
								 unsigned int *count,
								 struct nvml_process *processes)
{
	static __thread struct sim_process found[SIM_MAX_PROCESSES];
	int index;
	nvmlReturn_t result = list_processes(device, count, found, processes, &index);

	for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
		processes[i] = (struct nvml_process){
			.pid = found[i].pid,
			.used_bytes = found[i].used_bytes[nvml_state()->place[index]],
			.gpu_instance = NVML_NOT_IN_MIG,
			.compute_instance = NVML_NOT_IN_MIG,
		};
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
								 unsigned int *count,
								 struct nvml_process *processes)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

/* There are none of these, in whatever version. */
#define NO_PROCESSES(symbol, entry)                                                            \
	NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, entry *none) \
	{                                                                                      \
		int index;                                                                     \
		nvmlReturn_t result = nvml_index(device, &index);                              \
                                                                                               \
		(void)none;                                                                    \
		if (result != NVML_SUCCESS)                                                    \
			return result;                                                         \
		if (!count)                                                                    \
			return NVML_ERROR_INVALID_ARGUMENT;                                    \
		*count = 0;                                                                    \
		return NVML_SUCCESS;                                                           \
	}

NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, struct nvml_process_v1)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, struct nvml_process)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, struct nvml_process)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, struct nvml_process_v1)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, struct nvml_process)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, struct nvml_process)

/*
 * How much of the last second the device was executing something, from its record, newest entry
 * first.
 */
static uint64_t busy_ns(const struct sim_record *record, uint64_t now)
{
	uint64_t newest = atomic_load(&record->next);
	uint64_t oldest = newest > UTILIZATION_ENTRIES ? newest - UTILIZATION_ENTRIES : 0;
	uint64_t counted_from = now;
	uint64_t busy = 0;

	for (uint64_t number = newest; number-- > oldest;) {
		const struct sim_record_entry *entry =
			&record->entries[number % SIM_RECORD_CAPACITY];
		uint64_t start = entry->start_ns > now - UTILIZATION_NS ? entry->start_ns
									: now - UTILIZATION_NS;
		uint64_t end = entry->end_ns < counted_from ? entry->end_ns : counted_from;

		if (atomic_load(&entry->sequence) != number + 1)
			continue;
		if (entry->end_ns < now - UTILIZATION_NS)
			break;
		if (end > start) {
			busy += end - start;
			counted_from = start;
		}
	}
	return busy;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
						       struct nvml_utilization *utilization)
{
	struct sim_record *record;
	struct timespec now;
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!utilization)
		return NVML_ERROR_INVALID_ARGUMENT;
	record = sim_record_open(nvml_state()->folder, nvml_state()->place[index]);
	if (!record)
		return NVML_ERROR_UNKNOWN;
	clock_gettime(CLOCK_MONOTONIC, &now);
	utilization->gpu_percent =
		(unsigned int)(busy_ns(record, (uint64_t)now.tv_sec * 1000000000ull +
						       (uint64_t)now.tv_nsec) *
			       100 / UTILIZATION_NS);
	utilization->memory_percent = 0;
	munmap(record, sizeof(*record));
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
							    int *minor)
{
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = 9;
	*minor = 0;
	return NVML_SUCCESS;
}

/* The simulated machine has one memory, so all CPUs are near. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words,
						  unsigned long *cpus)
{
	long bits = (long)(8 * sizeof(*cpus)), count = sysconf(_SC_NPROCESSORS_CONF);
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!words || !cpus)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(cpus, 0, words * sizeof(*cpus));
	for (long cpu = 0; cpu < count && cpu < (long)words * bits; cpu++)
		cpus[cpu / bits] |= 1ul << cpu % bits;
	return NVML_SUCCESS;
}
