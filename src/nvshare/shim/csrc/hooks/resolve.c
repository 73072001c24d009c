/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress, in both of its forms: the driver decides which function a name, a version and
 * flags mean, and whether it has it; its answer is replaced by address. No state.
 */
#include "driver/driver.h"

static CUresult replace(CUresult result, void **function)
{
	void *replacement =
		result == CUDA_SUCCESS && function && *function ? nvs_hook_at(*function) : NULL;

	if (replacement)
		*function = replacement;
	return result;
}

NVS_HOOK(cuGetProcAddress, const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	return replace(NVS_CALL(cuGetProcAddress, symbol, pfn, driverVersion, flags), pfn);
}

NVS_HOOK(cuGetProcAddress_v2, const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
	 CUdriverProcAddressQueryResult *symbolFound)
{
	return replace(
		NVS_CALL(cuGetProcAddress_v2, symbol, pfn, driverVersion, flags, symbolFound), pfn);
}
