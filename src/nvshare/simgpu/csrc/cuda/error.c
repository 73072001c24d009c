/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the results and what they mean. Owns nothing. */
#include <stddef.h>

#include "sim.h"

static const struct {
	CUresult result;
	const char *name;
	const char *meaning;
} results[] = {
#define SIM_RESULT(name, meaning) { name, #name, meaning },
#include "results.def"
#undef SIM_RESULT
};

static CUresult look_up(CUresult error, const char **out, size_t offset)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].result == error) {
			*out = *(const char *const *)((const char *)&results[i] + offset);
			return CUDA_SUCCESS;
		}
	}
	*out = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorName(CUresult error, const char **pStr)
{
	return look_up(error, pStr, offsetof(__typeof__(results[0]), name));
}

CUresult sim_cuGetErrorString(CUresult error, const char **pStr)
{
	return look_up(error, pStr, offsetof(__typeof__(results[0]), meaning));
}
