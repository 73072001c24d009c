/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program is told about addresses of allocations: always from our records, so it is the same
 * wherever the memory is. The driver knows nothing of what is out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

#define NVS_ANSWER_BYTES 12 /* the longest */

/* The driver's answer to a question about a pointer: what it writes, and what it returns. */
struct nvs_answer {
	CUresult result;
	unsigned int bytes; /* 0: there is no such attribute */
	unsigned char value[NVS_ANSWER_BYTES];
};

/* False: the address is in none of our allocations. */
bool nvs_answer_attribute(CUdeviceptr address, CUpointer_attribute attribute,
			  struct nvs_answer *answer);
bool nvs_answer_range(CUdeviceptr address, CUdeviceptr *start, uint64_t *bytes, CUresult *result);
