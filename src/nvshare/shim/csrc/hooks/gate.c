/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that only pass the gate, made from hooks.def. No state. */
#include "driver/driver.h"
#include "gate/pass.h"

#define GATE(symbol, parameters, arguments, stream)                                 \
	extern CUresult symbol parameters                                           \
		__attribute__((alias("nvs_hook_" #symbol), visibility("default"))); \
	CUresult nvs_hook_##symbol parameters                                       \
	{                                                                           \
		__typeof__(nvs_real.symbol) nvs_function = NVS_REAL(symbol);        \
		struct nvs_pass nvs_pass;                                           \
		CUresult nvs_result;                                                \
                                                                                    \
		if (!nvs_function)                                                  \
			return CUDA_ERROR_NOT_FOUND;                                \
		nvs_result = nvs_gate_enter(&nvs_pass, stream);                     \
		if (nvs_result != CUDA_SUCCESS)                                     \
			return nvs_result;                                          \
		nvs_result = nvs_function arguments;                                \
		nvs_gate_leave(&nvs_pass, nvs_result);                              \
		return nvs_result;                                                  \
	}
#define COPY(symbol, parameters, arguments, stream, operands) /* in copy.c */
#include "hooks.def"
