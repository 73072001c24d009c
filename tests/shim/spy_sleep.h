/* SPDX-License-Identifier: Apache-2.0 */
/* Of the counting driver: who is in it while nobody may be, and a function that is in no list. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "abi.h"

static _Atomic bool sleeping;
static _Atomic int disturbances;
static _Atomic uint64_t lingering_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void linger(void)
{
	uint64_t length = atomic_load(&lingering_ns), begin = length ? now_ns() : 0;

	while (length && now_ns() - begin < length)
		;
}

/* How long each call takes at least. */
EXPORT void spy_linger(uint64_t ns)
{
	atomic_store(&lingering_ns, ns);
}

/* Whether nobody may be in the driver now. */
EXPORT void spy_sleep(bool sleeps)
{
	atomic_store(&sleeping, sleeps);
}

/* How many calls were in the driver meanwhile. */
EXPORT int spy_disturbances(void)
{
	return atomic_load(&disturbances);
}

/* One that no list has, as of a driver that is newer than all of them. */
EXPORT CUresult cuUnheardOf(void)
{
	return CUDA_SUCCESS;
}
