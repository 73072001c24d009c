/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what the scheduler has said of the limits. The lock protects it and is held for reading or
 * writing it only.
 */
#include "memory/limit.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "gate/device.h"
#include "gate/python.h"
#include "process/clock.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/mutex.h"
#include "process/terms.h"
#include "process/thread.h"
#include "protocol/wire.h"

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_LIMIT);
enum expected {
	UNSURE = 0,
	EXPECTED,
	UNEXPECTED
};

static struct {
	enum expected expected;
	bool heard, withheld;
	struct nvs_limit limit;
	char reason[NVS_WIRE_WHOLE_TEXT_BYTES]; /* why it is withheld; empty once that is logged */
} known[NVS_MAX_DEVICES];

static _Atomic uint32_t news; /* futex word; changes after what is known */

static uint64_t or_none(uint64_t bytes)
{
	return bytes ? bytes : UINT64_MAX;
}

static void tell(void)
{
	atomic_fetch_add(&news, 1);
	nvs_futex_wake(&news, INT_MAX);
}

struct nvs_limit nvs_limit_of(int ordinal)
{
	struct nvs_limit limit = { .bytes = or_none(nvs_terms()->memory_limit_bytes) };

	if (ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return limit;
	nvs_mutex_lock(&lock);
	if (known[ordinal].heard)
		limit = known[ordinal].limit;
	nvs_mutex_unlock(&lock);
	return limit;
}

void nvs_limit_heard(int ordinal, uint64_t limit_bytes, uint64_t others_bytes)
{
	nvs_mutex_lock(&lock);
	known[ordinal].heard = true;
	known[ordinal].withheld = false;
	known[ordinal].limit =
		(struct nvs_limit){ .bytes = or_none(limit_bytes), .others_bytes = others_bytes };
	nvs_mutex_unlock(&lock);
	tell();
}

void nvs_limit_expect(int ordinal, bool expected)
{
	nvs_mutex_lock(&lock);
	known[ordinal].expected = expected ? EXPECTED : UNEXPECTED;
	known[ordinal].withheld = false;
	nvs_mutex_unlock(&lock);
	tell();
}

void nvs_limit_withhold(int ordinal, const char *reason)
{
	nvs_mutex_lock(&lock);
	known[ordinal].withheld = true;
	snprintf(known[ordinal].reason, sizeof(known[ordinal].reason), "%s", reason);
	nvs_mutex_unlock(&lock);
	tell();
}

/* What there is to wait for. What was said once counts, whatever becomes of the scheduler. */
struct lack {
	bool waits, unsure, withheld;
	char reason[NVS_WIRE_WHOLE_TEXT_BYTES];
};

static struct lack lack_of(int ordinal)
{
	struct lack lack = { .waits = false };

	nvs_mutex_lock(&lock);
	if (!known[ordinal].heard && known[ordinal].expected != UNEXPECTED) {
		lack.withheld = known[ordinal].withheld;
		lack.waits = !lack.withheld;
		lack.unsure = known[ordinal].expected == UNSURE;
	}
	if (lack.withheld) {
		memcpy(lack.reason, known[ordinal].reason, sizeof(lack.reason));
		known[ordinal].reason[0] = '\0';
	}
	nvs_mutex_unlock(&lock);
	return lack;
}

bool nvs_limit_await(struct nvs_device *device)
{
	bool told = false, goes_on = true;
	uint32_t seen = nvs_limit_news();
	struct lack lack = lack_of(device->ordinal);
	int saved = errno, error;

	while (goes_on && lack.waits) {
		nvs_cancel_off();
		error = nvs_futex_sleep(&news, seen, NVS_MEMORY_PATIENCE_NS);
		nvs_cancel_on();
		goes_on = error != EINTR || !nvs_python_interrupts();
		/* A scheduler that does not answer at all may be stopped: as with contexts. */
		if (error == ETIMEDOUT && lack.unsure)
			break;
		if (error == ETIMEDOUT && !told)
			nvs_device_tell(device, NVS_NEWS_MEMORY_WAITS);
		told |= error == ETIMEDOUT;
		seen = nvs_limit_news();
		lack = lack_of(device->ordinal);
	}
	if (goes_on && lack.withheld && *lack.reason)
		nvs_log("out of memory on device %d: %s", device->ordinal, lack.reason);
	errno = saved;
	return goes_on && !lack.withheld;
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
	struct nvs_device *device = nvs_device_known(ordinal);
	char other[128] = "";

	if (device && device->listener)
		device->listener->name_other(device, other, sizeof(other));
	nvs_log("out of memory on device %d: limit %llu, used %llu, requested %llu bytes%s%s%s",
		ordinal, (unsigned long long)limit, (unsigned long long)used,
		(unsigned long long)asked, *reason ? ": " : "", reason, other);
}

void nvs_limits_forked(void)
{
	nvs_mutex_forked(&lock);
	memset(known, 0, sizeof(known));
}
