/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of the client and of pacing.
 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t nvs_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Microseconds of the same clock. */
static inline uint64_t nvs_now_us(void)
{
	return nvs_now_ns() / 1000;
}
