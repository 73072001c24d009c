/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every exported symbol of the driver, and the table by which cuGetProcAddress finds them; both are
 * expanded from entries.inc. Owns nothing.
 */
#include "entry/entries.h"

#include <stddef.h>

#include "checkpoint/gate.h"

#define SIM_PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
#define EXPORT __attribute__((visibility("default")))

#define SIM_DECLARE(symbol, parameters) EXPORT CUresult symbol parameters;
#define SIM_ENTRY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_EARLY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_QUERY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_MISSING(base, since, variant, symbol, parameters) SIM_DECLARE(symbol, parameters)
#include "entry/entries.inc"
#undef SIM_ENTRY
#undef SIM_QUERY
#undef SIM_EARLY
#undef SIM_MISSING

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define SIM_BODY(symbol, parameters, enter, call)  \
	CUresult symbol parameters                 \
	{                                          \
		CUresult entered = enter(#symbol); \
		if (entered != CUDA_SUCCESS)       \
			return entered;            \
		return call;                       \
	}
#define SIM_ENTRY(base, since, variant, symbol, parameters, call) \
	CUresult symbol parameters                                \
	{                                                         \
		CUresult result = sim_enter(#symbol);             \
		if (result != CUDA_SUCCESS)                       \
			return result;                            \
		sim_gate_enter();                                 \
		result = call;                                    \
		sim_gate_leave();                                 \
		return result;                                    \
	}
#define SIM_QUERY(base, since, variant, symbol, parameters, call) \
	SIM_BODY(symbol, parameters, sim_enter, call)
#define SIM_EARLY(base, since, variant, symbol, parameters, call) \
	SIM_BODY(symbol, parameters, sim_enter_early, call)
#define SIM_MISSING(base, since, variant, symbol, parameters) \
	SIM_BODY(symbol, parameters, sim_enter, CUDA_ERROR_NOT_SUPPORTED)
#include "entry/entries.inc"
#undef SIM_ENTRY
#undef SIM_QUERY
#undef SIM_EARLY
#undef SIM_MISSING

#define SIM_ROW(base, since, variant, symbol) { #base, since, SIM_FORM_##variant, (void *)symbol },
#define SIM_ENTRY(base, since, variant, symbol, parameters, call) \
	SIM_ROW(base, since, variant, symbol)
#define SIM_EARLY(base, since, variant, symbol, parameters, call) \
	SIM_ROW(base, since, variant, symbol)
#define SIM_QUERY(base, since, variant, symbol, parameters, call) \
	SIM_ROW(base, since, variant, symbol)
#define SIM_MISSING(base, since, variant, symbol, parameters) SIM_ROW(base, since, variant, symbol)
const struct sim_entry_row sim_entry_rows[] = {
#include "entry/entries.inc"
};

const size_t sim_entry_row_count = sizeof(sim_entry_rows) / sizeof(sim_entry_rows[0]);
