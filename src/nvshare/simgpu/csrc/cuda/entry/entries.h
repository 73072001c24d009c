/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all exported entry points. */
#pragma once

#include "sim.h"

enum sim_form {
	SIM_FORM_DEFAULT,
	SIM_FORM_THREAD /* _ptsz and _ptds: NULL is the thread's default stream */
};

struct sim_entry_row {
	const char *base; /* the name that cuGetProcAddress is asked for */
	int since;	  /* the driver version that brought this form */
	enum sim_form form;
	void *address;
};

extern const struct sim_entry_row sim_entry_rows[];
extern const size_t sim_entry_row_count;
