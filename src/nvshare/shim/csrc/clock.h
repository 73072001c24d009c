/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that leases are reckoned in.
 */
#ifndef NVSHARE_CLOCK_H
#define NVSHARE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds of CLOCK_MONOTONIC. */
static inline uint64_t nvs_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

#endif
