/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the memory limit of this process's container is on each device, and what its other processes
 * have allocated of it: as the environment says until the scheduler has said it. Any thread may
 * call; nothing waits.
 */
#ifndef NVSHARE_LIMIT_H
#define NVSHARE_LIMIT_H

#include <stdint.h>

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
/* The scheduler has said it. */
void nvs_limit_heard(int ordinal, uint64_t limit_bytes, uint64_t others_bytes);
/* Says that memory was refused; `reason`: why, empty if the numbers say all. */
void nvs_limit_say(int ordinal, uint64_t limit, uint64_t used, uint64_t asked, const char *reason);
/* In a forked child: the scheduler has said nothing yet. */
void nvs_limits_forked(void);

#endif
