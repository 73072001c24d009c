/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done where a block ends, by whatever way it is left: so nothing taken stays taken.
 */
#pragma once

#include <errno.h>

/* Of a local variable: the function that gets its address then. */
#define NVS_ENDS(function) __attribute__((cleanup(function)))

static inline void nvs_errno_back(const int *saved)
{
	errno = *saved;
}

/* errno is then what it was: the program's, who knows nothing of the calls in between. */
#define NVS_KEEP_ERRNO int nvs_errno_ NVS_ENDS(nvs_errno_back) = errno
