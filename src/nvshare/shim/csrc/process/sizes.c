/* SPDX-License-Identifier: Apache-2.0 */
/* Pure; owns nothing. */
#include "process/sizes.h"

#include <string.h>

enum nvs_size nvs_size_of(const char *text, uint64_t *bytes)
{
	return nvs_size_read(text, strlen(text), bytes);
}

const char *nvs_size_fault(enum nvs_size read)
{
	static const char *const faults[] = {
		[NVS_SIZE_FINE] = "is none",
		[NVS_SIZE_NONE] = "is no size; 8Gi or 8GiB (powers of 1024), 8G or 8GB (powers of "
				  "1000) and a number of bytes are",
		[NVS_SIZE_SMALL] = "is too small for anything; is the unit missing, as in 8GiB?",
		[NVS_SIZE_LARGE] = "is more than any machine has",
	};

	return faults[read];
}
