/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the memory limit of this process's container is on each device, and what its other processes
 * have allocated of it: as the environment says until the scheduler has said it. Any thread may
 * call; nothing waits but nvs_limit_wait() and nvs_limit_await().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whoever waits for memory for so long is told why. */
#define NVS_MEMORY_PATIENCE_NS 10000000000ull

struct nvs_device;

struct nvs_limit {
	uint64_t bytes; /* UINT64_MAX: none */
	uint64_t others_bytes;
};

/* A device may be asked about before this process uses it. */
struct nvs_limit nvs_limit_of(int ordinal);
/* How much of a limit is left for one that has so much. */
static inline uint64_t nvs_limit_left(const struct nvs_limit *limit, uint64_t own_bytes)
{
	uint64_t left = limit->bytes;

	left = left > limit->others_bytes ? left - limit->others_bytes : 0;
	return left > own_bytes ? left - own_bytes : 0;
}
/*
 * Whether so much more could be had if the others had less: they may have freed memory that the
 * scheduler has not heard of yet.
 */
static inline bool nvs_limit_may_soon(const struct nvs_limit *limit, uint64_t own_bytes,
				      uint64_t bytes)
{
	return limit->others_bytes && own_bytes <= limit->bytes &&
	       bytes <= limit->bytes - own_bytes;
}
/* How often the scheduler has said something of the limits. */
uint32_t nvs_limit_news(void);
/*
 * Waits for more news than these, no longer than until the deadline, in nanoseconds of
 * CLOCK_MONOTONIC; false: it is over.
 */
bool nvs_limit_wait(uint32_t news, uint64_t deadline_ns);
/* The scheduler has said it. */
void nvs_limit_heard(int ordinal, uint64_t limit_bytes, uint64_t others_bytes);
/* Whether there is a scheduler that will say it as soon as it knows. */
void nvs_limit_expect(int ordinal, bool expected);
/* It does not know it in time: until it says it all memory is refused, because of `reason`. */
void nvs_limit_withhold(int ordinal, const char *reason);
/*
 * Waits until it is known whether a limit is to be expected, and until that has been said. False:
 * it is withheld, which was logged, or a handler of Python's that raises wants to go on.
 */
bool nvs_limit_await(struct nvs_device *device);
/* Says that memory was refused; `reason`: why, empty if the numbers say all. */
void nvs_limit_say(int ordinal, uint64_t limit, uint64_t used, uint64_t asked, const char *reason);
/* In a forked child: the scheduler has said nothing yet. */
void nvs_limits_forked(void);
