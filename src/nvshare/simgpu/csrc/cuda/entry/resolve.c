/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: the newest form of a name that the asked-for version had. And one table of
 * cuGetExportTable. Owns nothing.
 */
#include <string.h>

#include "checkpoint/gate.h"
#include "entry/entries.h"

#define ALL_FLAGS                                         \
	((cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM | \
		      CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))

/* The newest row of a name in one form; NULL if the version had none. */
static const struct sim_entry_row *newest(const char *name, int version, enum sim_form form,
					  bool *known)
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

/*
 * A name that has forms for the thread's default stream is looked up among those alone if they are
 * asked for.
 */
static CUresult look_up(const char *name, int version, cuuint64_t flags,
			const struct sim_entry_row **row, bool *known)
{
	if (!name || version > SIM_DRIVER_VERSION || flags & ~ALL_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	*known = false;
	*row = NULL;
	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		*row = newest(name, version, SIM_FORM_THREAD, known);
	if (!*known)
		*row = newest(name, version, SIM_FORM_DEFAULT, known);
	return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion,
				 cuuint64_t flags, CUdriverProcAddressQueryResult *symbolFound)
{
	const struct sim_entry_row *row;
	bool known;
	CUresult result = look_up(symbol, driverVersion, flags, &row, &known);

	if (result != CUDA_SUCCESS || !pfn)
		return CUDA_ERROR_INVALID_VALUE;
	*pfn = row ? row->address : NULL;
	if (symbolFound && row)
		*symbolFound = CU_GET_PROC_ADDRESS_SUCCESS;
	else if (symbolFound)
		*symbolFound = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	const struct sim_entry_row *row;
	bool known;
	CUresult result = look_up(symbol, driverVersion, flags, &row, &known);

	if (result != CUDA_SUCCESS || !pfn)
		return CUDA_ERROR_INVALID_VALUE;
	if (!row)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = row->address;
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, unsigned int blocks, unsigned int threads, CUstream stream,
		       void **parameters)
{
	CUresult result = sim_enter("launch_table");

	if (result != CUDA_SUCCESS)
		return result;
	sim_gate_enter();
	result = sim_cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
	sim_gate_leave();
	return result;
}

/* As the real driver's tables: its size, then functions that have no names. */
static const struct {
	size_t bytes;
	CUresult (*launch)(CUfunction f, unsigned int blocks, unsigned int threads, CUstream stream,
			   void **parameters);
} launch_table = { sizeof(launch_table), launch };

static const char launch_table_id[] = "nvshare-simgpu-1";

CUresult sim_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	if (!memcmp(pExportTableId->bytes, launch_table_id, sizeof(pExportTableId->bytes))) {
		*ppExportTable = &launch_table;
		return CUDA_SUCCESS;
	}
	*ppExportTable = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
