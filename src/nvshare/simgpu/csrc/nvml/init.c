/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the management library's initialization, counted, and the handles of devices. Protected by
 * `mutex`.
 */
#include <stdio.h>
#include <string.h>

#include "nvml.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_state state;
static bool is_open;
static unsigned int users;

struct sim_state *nvml_state(void)
{
	struct sim_state *open;

	pthread_mutex_lock(&mutex);
	open = users > 0 ? &state : NULL;
	pthread_mutex_unlock(&mutex);
	return open;
}

nvmlReturn_t nvml_index(nvmlDevice_t device, int *index)
{
	uintptr_t number = (uintptr_t)device & NVML_GPU_MASK;
	const struct sim_state *open = nvml_state();
	nvmlReturn_t result;

	if (!open)
		return NVML_ERROR_UNINITIALIZED;
	if (number == 0 || number > open->device_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = nvml_trouble(open);
	if (result != NVML_SUCCESS)
		return result;
	if (nvml_is_lost(open, (int)number - 1))
		return NVML_ERROR_GPU_IS_LOST;
	*index = (int)number - 1;
	return NVML_SUCCESS;
}

nvmlDevice_t nvml_handle(int index)
{
	return (nvmlDevice_t)(uintptr_t)(index + 1);
}

nvmlReturn_t nvml_put_text(char *out, unsigned int room, const char *text)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (room <= strlen(text))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn_t result;

	(void)flags;
	pthread_mutex_lock(&mutex);
	if (!is_open)
		is_open = sim_state_open(&state);
	result = is_open ? nvml_trouble(&state) : NVML_ERROR_DRIVER_NOT_LOADED;
	if (result == NVML_SUCCESS)
		users++;
	pthread_mutex_unlock(&mutex);
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = NVML_SUCCESS;

	pthread_mutex_lock(&mutex);
	if (users > 0)
		users--;
	else
		result = NVML_ERROR_UNINITIALIZED;
	pthread_mutex_unlock(&mutex);
	return result;
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_ERROR_TIMEOUT:
		return "Timeout";
	case NVML_ERROR_GPU_IS_LOST:
		return "GPU is lost";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
		return "Driver/library version mismatch";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument Version Mismatch";
	default:
		return "Unknown Error";
	}
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	return nvml_state() ? nvml_put_text(version, length, "580.0.0") : NVML_ERROR_UNINITIALIZED;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	return nvml_state() ? nvml_put_text(version, length, "13.580.0.0")
			    : NVML_ERROR_UNINITIALIZED;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!nvml_state())
		return NVML_ERROR_UNINITIALIZED;
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = 13000;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}
