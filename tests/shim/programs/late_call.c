/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before the library: at the process's end, behind all of atexit, a call of the driver. */
#include "abi.h"

#include <stdio.h>

CUresult cuCtxGetFlags(unsigned int *flags);

__attribute__((destructor)) static void call(void)
{
	unsigned int flags;

	printf("at its end: %d\n", (int)cuCtxGetFlags(&flags));
	fflush(stdout);
}
