/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported functions that pass the door before they do anything, made from hooks.def: those
 * that are the driver's own, and those with a body of ours. What submits passes the door where it
 * passes the gate. No state.
 */
#include "gate/door.h"

#include <stddef.h>

#include "driver/driver.h"
#include "process/sleepless.h"

#define THROUGH_DOOR(call, why)                          \
	nvs_result = nvs_door_enter();                   \
	if (nvs_result != CUDA_SUCCESS)                  \
		return nvs_result;                       \
	nvs_result = call;                               \
	if ((why) != NULL && nvs_result == CUDA_SUCCESS) \
		nvs_sleepless(why);                      \
	nvs_door_leave();                                \
	return nvs_result

#define BODY(symbol, parameters, arguments, why)                \
	NVS_EXPORTED(symbol, parameters)                        \
	CUresult nvs_hook_##symbol parameters                   \
	{                                                       \
		CUresult nvs_result;                            \
                                                                \
		THROUGH_DOOR(nvs_body_##symbol arguments, why); \
	}

#define PASS(symbol, parameters, arguments, why)                             \
	NVS_EXPORTED(symbol, parameters)                                     \
	CUresult nvs_hook_##symbol parameters                                \
	{                                                                    \
		__typeof__(nvs_real.symbol) nvs_function = NVS_REAL(symbol); \
		CUresult nvs_result;                                         \
                                                                             \
		if (!nvs_function)                                           \
			return CUDA_ERROR_NOT_FOUND;                         \
		THROUGH_DOOR(nvs_function arguments, why);                   \
	}

#define FREE(symbol, parameters, arguments)                                                    \
	NVS_EXPORTED(symbol, parameters)                                                       \
	CUresult nvs_hook_##symbol parameters                                                  \
	{                                                                                      \
		__typeof__(nvs_real.symbol) nvs_function = NVS_REAL(symbol);                   \
                                                                                               \
		return nvs_function ? nvs_function arguments : (CUresult)CUDA_ERROR_NOT_FOUND; \
	}

#include "hooks.def"
