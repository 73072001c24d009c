/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what the scheduler has said of the limits. The lock protects it and is held for reading or
 * writing it only.
 */
#include "memory/limit.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "gate/device.h"
#include "process/clock.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/terms.h"
#include "process/thread.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	bool heard;
	struct nvs_limit limit;
} known[NVS_MAX_DEVICES];

static _Atomic uint32_t news; /* futex word; changes after what is known */

static uint64_t or_none(uint64_t bytes)
{
	return bytes ? bytes : UINT64_MAX;
}

struct nvs_limit nvs_limit_of(int ordinal)
{
	struct nvs_limit limit = { .bytes = or_none(nvs_terms()->memory_limit_bytes) };

	if (ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return limit;
	nvs_cancel_off();
	pthread_mutex_lock(&lock);
	if (known[ordinal].heard)
		limit = known[ordinal].limit;
	pthread_mutex_unlock(&lock);
	nvs_cancel_on();
	return limit;
}

void nvs_limit_heard(int ordinal, uint64_t limit_bytes, uint64_t others_bytes)
{
	pthread_mutex_lock(&lock);
	known[ordinal].heard = true;
	known[ordinal].limit =
		(struct nvs_limit){ .bytes = or_none(limit_bytes), .others_bytes = others_bytes };
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&news, 1);
	nvs_futex_wake(&news, INT_MAX);
}

uint32_t nvs_limit_news(void)
{
	return atomic_load(&news);
}

bool nvs_limit_wait(uint32_t seen, uint64_t deadline_ns)
{
	uint64_t now = nvs_now_ns();

	if (now >= deadline_ns)
		return false;
	nvs_futex_sleep(&news, seen, deadline_ns - now);
	return true;
}

void nvs_limit_say(int ordinal, uint64_t limit, uint64_t used, uint64_t asked, const char *reason)
{
	nvs_log("out of memory on device %d: limit %llu, used %llu, requested %llu bytes%s%s",
		ordinal, (unsigned long long)limit, (unsigned long long)used,
		(unsigned long long)asked, *reason ? ": " : "", reason);
}

void nvs_limits_forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	memset(known, 0, sizeof(known));
}
