/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the management library says of memory, to a program whose container has a memory limit: the
 * limit is the device's size, and what the container has of it is in use. Without a limit every
 * answer is NVML's own.
 *
 * A process that does not use the device itself knows the limit of its environment only, and what
 * its container has from NVML's list of processes: that of a driver which lists a process under the
 * number that this pid namespace has for it, and those of other namespaces not at all. Older
 * drivers list everybody with the host's numbers; there it is the device's use that is said. The
 * lists themselves have only what this pid namespace knows.
 *
 * No state but the depth of calls: what NVML asks itself is answered by NVML.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "driver/nvml.h"
#include "gate/device.h"
#include "memory/memory.h"
#include "memory/room.h"

#define NO_DEVICE (-1)
#define NOT_KNOWN UINT64_MAX
#define UUID_BYTES 16
#define LIST_ROOM 64 /* processes that are expected, at first */
#define LIST_TRIES 4

static __thread bool inside;

/* Calls NVML; the value is its answer. */
#define ASK(real, ...)                            \
	__extension__({                           \
		const bool ask_outer = inside;    \
		int ask_result;                   \
                                                  \
		inside = true;                    \
		ask_result = (real)(__VA_ARGS__); \
		inside = ask_outer;               \
		ask_result;                       \
	})

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Of "GPU-" or "MIG-" and five groups of hexadecimal digits; false: it is something else. */
static bool read_uuid(const char *text, uint8_t uuid[UUID_BYTES])
{
	int digits = 0;

	if (strncmp(text, "GPU-", 4) && strncmp(text, "MIG-", 4))
		return false;
	for (text += 4; *text; text++) {
		int value = digit(*text);

		if (*text == '-')
			continue;
		if (value < 0 || digits == 2 * UUID_BYTES)
			return false;
		uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | value);
		digits++;
	}
	return digits == 2 * UUID_BYTES;
}

/* The device behind a handle, if this process uses it; NULL: it does not. */
static struct nvs_device *used_device(void *handle)
{
	nvs_nvmlDeviceGetUUID_call *real = NVS_NVML_REAL(nvmlDeviceGetUUID);
	char text[NVS_NVML_UUID_BYTES] = "";
	uint8_t uuid[UUID_BYTES] = { 0 };

	if (ASK(real, handle, text, sizeof(text) - 1) != NVS_NVML_SUCCESS || !read_uuid(text, uuid))
		return NULL;
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (!memcmp(device->uuid, uuid, sizeof(uuid)))
			return device;
	return NULL;
}

/* What a handle means here. */
struct place {
	struct nvs_device *device; /* NULL: this process does not use it */
	struct nvs_limit limit;
};

/* False: there is no limit. */
static bool has_limit(void *handle, struct place *place)
{
	place->device = used_device(handle);
	place->limit = nvs_limit_of(place->device ? place->device->ordinal : NO_DEVICE);
	return place->limit.bytes != UINT64_MAX;
}

/* Processes */

typedef int list_call(void *device, unsigned int *count, void *infos);

struct list {
	list_call *real;
	size_t entry_bytes;
	unsigned int count;
	char *entries; /* to be freed */
};

/* Asks for all of them, whose number may change meanwhile. */
static int fetch(struct list *list, void *device)
{
	unsigned int room = LIST_ROOM;
	int result = NVS_NVML_ERROR_MEMORY;

	for (int tries = 0; tries < LIST_TRIES; tries++) {
		list->entries = calloc(room, list->entry_bytes);
		if (!list->entries)
			return NVS_NVML_ERROR_MEMORY;
		list->count = room;
		result = ASK(list->real, device, &list->count, list->entries);
		if (result == NVS_NVML_SUCCESS)
			return result;
		free(list->entries);
		list->entries = NULL;
		if (result != NVS_NVML_ERROR_INSUFFICIENT_SIZE)
			return result;
		room = list->count * 2;
	}
	return result;
}

/* The part that all versions of an entry have. */
static struct nvs_nvml_process_v1 entry_at(const struct list *list, unsigned int i)
{
	struct nvs_nvml_process_v1 entry;

	memcpy(&entry, list->entries + i * list->entry_bytes, sizeof(entry));
	return entry;
}

static bool is_visible(uint32_t pid)
{
	return (pid_t)pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

/* Takes the others out; returns whether there were some. */
static bool keep_visible(struct list *list)
{
	unsigned int kept = 0, all = list->count;

	for (unsigned int i = 0; i < all; i++)
		if (is_visible(entry_at(list, i).pid))
			memmove(list->entries + kept++ * list->entry_bytes,
				list->entries + i * list->entry_bytes, list->entry_bytes);
	list->count = kept;
	return kept < all;
}

/* The newest list that this NVML has of the processes that compute. */
static struct list newest_list(void)
{
	struct list list = { .entry_bytes = sizeof(struct nvs_nvml_process) };

	list.real = (list_call *)NVS_NVML_REAL(nvmlDeviceGetComputeRunningProcesses_v3);
	if (!list.real)
		list.real = (list_call *)NVS_NVML_REAL(nvmlDeviceGetComputeRunningProcesses_v2);
	if (!list.real) {
		list.real = (list_call *)NVS_NVML_REAL(nvmlDeviceGetComputeRunningProcesses);
		list.entry_bytes = sizeof(struct nvs_nvml_process_v1);
	}
	return list;
}

/* What the processes of this pid namespace have of the device; NOT_KNOWN: the list does not say. */
static uint64_t sum_listed(void *device)
{
	struct list list = newest_list();
	uint64_t sum;

	if (!list.real || fetch(&list, device) != NVS_NVML_SUCCESS)
		return NOT_KNOWN;
	sum = keep_visible(&list) ? NOT_KNOWN : 0;
	for (unsigned int i = 0; i < list.count && sum != NOT_KNOWN; i++) {
		uint64_t used = entry_at(&list, i).used_bytes;

		sum = used == NOT_KNOWN ? NOT_KNOWN : sum + used;
	}
	free(list.entries);
	return sum;
}

static int answer_list(list_call *real, void *device, unsigned int *count, void *infos,
		       size_t entry_bytes)
{
	struct list list = { .real = real, .entry_bytes = entry_bytes };
	int result, saved = errno;
	struct place place;

	if (inside || !count || (*count && !infos) || !has_limit(device, &place))
		return ASK(real, device, count, infos);
	result = fetch(&list, device);
	if (result != NVS_NVML_SUCCESS)
		return result;
	keep_visible(&list);
	if (list.count > *count)
		result = NVS_NVML_ERROR_INSUFFICIENT_SIZE;
	else if (list.count)
		memcpy(infos, list.entries, list.count * entry_bytes);
	*count = list.count;
	free(list.entries);
	errno = saved;
	return result;
}

#define LIST(symbol, entry)                                                                  \
	int nvs_hook_##symbol(void *device, unsigned int *count, entry *infos)               \
	{                                                                                    \
		return answer_list((list_call *)NVS_NVML_REAL(symbol), device, count, infos, \
				   sizeof(entry));                                           \
	}
#define LISTS(symbol)                              \
	LIST(symbol, struct nvs_nvml_process_v1)   \
	LIST(symbol##_v2, struct nvs_nvml_process) \
	LIST(symbol##_v3, struct nvs_nvml_process)

LISTS(nvmlDeviceGetComputeRunningProcesses)
LISTS(nvmlDeviceGetGraphicsRunningProcesses)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses)

/* Memory */

/* What the container has of the device; `all`: what is in use of it. */
static uint64_t used_of(void *handle, const struct place *place, uint64_t all)
{
	struct nvs_device *device = place->device;
	uint64_t used;

	if (!device) {
		used = sum_listed(handle);
		/* A process that has just ended is in the list and nowhere else. */
		if (used == NOT_KNOWN)
			used = sum_listed(handle);
		return used == NOT_KNOWN ? all : used;
	}
	used = atomic_load(&device->footprint_bytes) + place->limit.others_bytes;
	return nvs_memory_swaps(device) ? used + nvs_room_footprint(device) : used;
}

/*
 * Changes what NVML says into what the program is told. Of what the driver reserves it sees as much
 * as its limit would reach into.
 */
static void look(void *handle, const struct place *place, struct nvs_nvml_memory_v2 *memory)
{
	const uint64_t allocatable = memory->total - memory->reserved;
	uint64_t most;

	memory->used = used_of(handle, place, memory->used);
	if (memory->total > place->limit.bytes)
		memory->total = place->limit.bytes;
	memory->reserved = memory->total > allocatable ? memory->total - allocatable : 0;
	most = memory->total - memory->reserved;
	if (memory->used > most)
		memory->used = most;
	memory->free = most - memory->used;
}

int nvs_hook_nvmlDeviceGetMemoryInfo(void *device, struct nvs_nvml_memory *memory)
{
	nvs_nvmlDeviceGetMemoryInfo_v2_call *whole = NVS_NVML_REAL(nvmlDeviceGetMemoryInfo_v2);
	struct nvs_nvml_memory_v2 seen = { .version = NVS_NVML_MEMORY_V2 };
	int result = ASK(NVS_NVML_REAL(nvmlDeviceGetMemoryInfo), device, memory), saved = errno;
	struct place place;

	if (inside || result != NVS_NVML_SUCCESS)
		return result;
	if (has_limit(device, &place)) {
		/* Older drivers have no function that says what is reserved. */
		if (!whole || ASK(whole, device, &seen) != NVS_NVML_SUCCESS)
			seen = (struct nvs_nvml_memory_v2){ .total = memory->total,
							    .used = memory->used };
		look(device, &place, &seen);
		*memory = (struct nvs_nvml_memory){ .total = seen.total,
						    .free = seen.free,
						    .used = seen.used + seen.reserved };
	}
	errno = saved;
	return result;
}

int nvs_hook_nvmlDeviceGetMemoryInfo_v2(void *device, struct nvs_nvml_memory_v2 *memory)
{
	int result = ASK(NVS_NVML_REAL(nvmlDeviceGetMemoryInfo_v2), device, memory), saved = errno;
	struct place place;

	if (!inside && result == NVS_NVML_SUCCESS && has_limit(device, &place))
		look(device, &place, memory);
	errno = saved;
	return result;
}
