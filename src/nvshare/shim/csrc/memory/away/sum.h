/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum of a granule while it is in a file, or by which equal ones are found. Pure.
 */
#pragma once

#include <stdint.h>

/* cdef begin */
#define NVS_SUM_KEYS 8

/*
 * Of so many bytes, a multiple of 64, which are number `number` of the file. With a random key
 * other contents, or the same ones as another number, have the same sum about once in 2^64. Who
 * looks for equal ones gives all the same number.
 */
uint64_t nvs_sum(const uint64_t key[NVS_SUM_KEYS], uint64_t number, const void *memory,
		 uint64_t bytes);
/* cdef end */
