/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is linked with a function of the driver that is in no list. */
#include "abi.h"

CUresult cuUnheardOf(void);
CUresult go_beyond(void);

CUresult go_beyond(void)
{
	return cuUnheardOf();
}
