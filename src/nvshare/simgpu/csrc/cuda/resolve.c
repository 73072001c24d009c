/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: the newest form of a name that the asked-for version had. Owns nothing. */
#include <string.h>

#include "entries.h"

/* The newest row of a name in one form; NULL if the version had none. */
static const struct sim_entry_row *newest(const char *name, int version, enum sim_form form, bool *known)
{
	const struct sim_entry_row *best = NULL;

	for (size_t i = 0; i < sim_entry_row_count; i++) {
		const struct sim_entry_row *row = &sim_entry_rows[i];

		if (row->form != form || strcmp(row->base, name) != 0)
			continue;
		*known = true;
		if (row->since <= version && (!best || row->since >= best->since))
			best = row;
	}
	return best;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
				 CUdriverProcAddressQueryResult *symbolFound)
{
	const struct sim_entry_row *row = NULL;
	bool known = false;

	if (!symbol || !pfn || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		row = newest(symbol, driverVersion, SIM_FORM_THREAD, &known);
	if (!row)
		row = newest(symbol, driverVersion, SIM_FORM_DEFAULT, &known);
	*pfn = row ? row->address : NULL;
	if (symbolFound && row)
		*symbolFound = CU_GET_PROC_ADDRESS_SUCCESS;
	else if (symbolFound)
		*symbolFound = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return row ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	return sim_cuGetProcAddress_v2(symbol, pfn, driverVersion, flags, NULL);
}

CUresult sim_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	*ppExportTable = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
