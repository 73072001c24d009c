/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event sets. A set reports the lines "INDEX XID" that somebody appends to the file `events` of the
 * state folder after the set was made. It belongs to its caller; nothing is shared.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"

#define LOOK_EVERY_MS 20u

struct nvml_event_set {
	uint64_t devices; /* bit mask of the registered ones */
	off_t offset;	  /* of the first line that was not looked at */
};

static int open_events(void)
{
	char path[SIM_PATH_BYTES + 16];

	snprintf(path, sizeof(path), "%s/events", nvml_state()->folder);
	return open(path, O_RDONLY | O_CLOEXEC);
}

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	int fd;

	if (!nvml_state())
		return NVML_ERROR_UNINITIALIZED;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	*set = calloc(1, sizeof(**set));
	fd = open_events();
	if (fd >= 0) {
		(*set)->offset = lseek(fd, 0, SEEK_END);
		close(fd);
	}
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	if (!nvml_state())
		return NVML_ERROR_UNINITIALIZED;
	free(set);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
							  unsigned long long *types)
{
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!types)
		return NVML_ERROR_INVALID_ARGUMENT;
	*types = NVML_EVENT_XID;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
						  nvmlEventSet_t set)
{
	int index;
	nvmlReturn_t result = nvml_index(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (types & ~NVML_EVENT_XID)
		return NVML_ERROR_NOT_SUPPORTED;
	if (types & NVML_EVENT_XID)
		set->devices |= 1ull << index;
	return NVML_SUCCESS;
}

/*
 * The next line about a device of the set. A line that is not complete yet is left for the next
 * call.
 */
static bool take_event(struct nvml_event_set *set, struct nvml_event *event)
{
	int fd = open_events();
	char text[64];
	bool found = false;

	while (fd >= 0 && !found) {
		ssize_t length = pread(fd, text, sizeof(text) - 1, set->offset);
		unsigned int index, xid;
		char *end;

		if (length <= 0)
			break;
		text[length] = '\0';
		end = strchr(text, '\n');
		if (!end)
			break;
		*end = '\0';
		set->offset += end - text + 1;
		found = sscanf(text, "%u %u", &index, &xid) == 2 && index < 64 &&
			set->devices >> index & 1;
		if (found)
			*event = (struct nvml_event){ nvml_handle((int)index), NVML_EVENT_XID, xid,
						      NVML_NOT_IN_MIG, NVML_NOT_IN_MIG };
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static bool has_lost(const struct nvml_event_set *set)
{
	const struct sim_state *state = nvml_state();

	for (unsigned int i = 0; i < state->device_count; i++)
		if (set->devices >> i & 1 && nvml_is_lost(state, (int)i))
			return true;
	return false;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, struct nvml_event *event,
					     unsigned int timeout_ms)
{
	const struct timespec pause = { .tv_nsec = LOOK_EVERY_MS * 1000000l };

	if (!nvml_state())
		return NVML_ERROR_UNINITIALIZED;
	if (!set || !event)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (uint64_t waited_ms = 0;; waited_ms += LOOK_EVERY_MS) {
		nvmlReturn_t result = nvml_trouble(nvml_state());

		if (result != NVML_SUCCESS)
			return result;
		if (take_event(set, event))
			return NVML_SUCCESS;
		if (has_lost(set))
			return NVML_ERROR_GPU_IS_LOST;
		if (waited_ms >= timeout_ms)
			return NVML_ERROR_TIMEOUT;
		nanosleep(&pause, NULL);
	}
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, struct nvml_event *event,
					  unsigned int timeout_ms)
{
	return nvmlEventSetWait_v2(set, event, timeout_ms);
}
