/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress, in both of its forms: the driver decides which function a name, a version and
 * flags mean, and whether it has it; its answer is replaced by address. And cuGetExportTable, which
 * is only seen: the tables that it gives hold functions without names. These pass no door: the
 * driver answers them at any time. No state.
 */
#include "driver/driver.h"
#include "driver/uses.h"

static CUresult replace(CUresult result, const char *name, void **function)
{
	void *replacement =
		result == CUDA_SUCCESS && function && *function ? nvs_hook_at(*function) : NULL;

	if (replacement)
		*function = replacement;
	nvs_uses_look();
	if (result == CUDA_SUCCESS && function && *function)
		nvs_uses_asked(name, *function, replacement != NULL);
	return result;
}

NVS_EXPORT(cuGetProcAddress, const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	return replace(NVS_CALL(cuGetProcAddress, symbol, pfn, driverVersion, flags), symbol, pfn);
}

NVS_EXPORT(cuGetProcAddress_v2, const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
	   CUdriverProcAddressQueryResult *symbolFound)
{
	return replace(
		NVS_CALL(cuGetProcAddress_v2, symbol, pfn, driverVersion, flags, symbolFound),
		symbol, pfn);
}

NVS_EXPORT(cuGetExportTable, const void **ppExportTable, const CUuuid *pExportTableId)
{
	CUresult result = NVS_CALL(cuGetExportTable, ppExportTable, pExportTableId);

	if (result == CUDA_SUCCESS && pExportTableId)
		nvs_uses_table(pExportTableId, __builtin_return_address(0));
	return result;
}
