/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the lists of ties, one for each device, and with each what its client has for a link. `lock`
 * protects all of it. Threads that wait sleep on `changes`, without the lock and without a mark:
 * the scheduler answers for each client by itself, so nobody waits here for another thread or
 * process but those that serve the lock.
 */
#include "ties/ties.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/device.h"
#include "process/clock.h"
#include "process/config.h"
#include "process/digest.h"
#include "process/ends.h"
#include "process/futex.h"
#include "process/mutex.h"
#include "process/report.h"
#include "ties/tie_list.h"

#define LONGEST_WAIT_NS 5000000000u

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_TIES);
static struct {
	int link; /* enum nvs_ties_link */
	struct nvs_tie_list list;
} devices[NVS_MAX_DEVICES];
static _Atomic uint32_t changes; /* futex word */
/* Of this process's devices, those that are tied to each other, by a key that nobody else has. */
static uint64_t tied_devices;
static uint8_t own_key[NVS_WIRE_KEY_BYTES];

static void report(const struct nvs_device *device, enum nvs_wire_tie tie)
{
	struct nvs_report_device *reported = nvs_report_device(device->ordinal);

	if (reported)
		__atomic_fetch_or(&reported->ties, 1U << tie, __ATOMIC_RELAXED);
}

bool nvs_tie(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
	     enum nvs_wire_tie tie, uint32_t size)
{
	bool added;

	if (nvs_config()->gang == NVS_GANG_NONE)
		return false;
	nvs_mutex_lock(&lock);
	added = nvs_tie_list_add(&devices[device->ordinal].list, key, tie, size);
	nvs_mutex_unlock(&lock);
	if (added) {
		report(device, tie);
		nvs_device_tell(device, NVS_NEWS_TIES);
	}
	return added;
}

void nvs_untie(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
	       enum nvs_wire_tie tie)
{
	bool dropped;

	nvs_mutex_lock(&lock);
	dropped = nvs_tie_list_drop(&devices[device->ordinal].list, key, tie);
	nvs_mutex_unlock(&lock);
	if (dropped)
		nvs_device_tell(device, NVS_NEWS_TIES);
}

/* Somebody may still say that the tie is in effect. */
static bool is_open(const struct nvs_device *device, const uint8_t *key, enum nvs_wire_tie tie)
{
	const struct nvs_tie *entry;

	NVS_HOLD(&lock);
	entry = nvs_tie_list_find(&devices[device->ordinal].list, key, tie);
	return entry && entry->state != NVS_TIE_JOINED &&
	       devices[device->ordinal].link != NVS_TIES_LINK_WITHOUT;
}

/* syscall() is no point at which a thread is cancelled; one that is ended here holds nothing. */
void nvs_tie_wait(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
		  enum nvs_wire_tie tie)
{
	uint64_t deadline = nvs_now_ns() + LONGEST_WAIT_NS, now;
	NVS_KEEP_ERRNO;

	for (;;) {
		uint32_t seen = atomic_load(&changes);

		if (!is_open(device, key, tie))
			break;
		now = nvs_now_ns();
		if (now >= deadline)
			break;
		nvs_futex_sleep(&changes, seen, deadline - now);
	}
}

void nvs_tie_for_good(struct nvs_device *device, const void *bytes, size_t count)
{
	uint8_t key[NVS_WIRE_KEY_BYTES];

	nvs_digest(key, bytes, count);
	if (device && nvs_tie(device, key, NVS_TIE_MEMORY, 0))
		nvs_tie_wait(device, key, NVS_TIE_MEMORY);
}

/* Those of the devices that are not tied yet; now they are to be. */
static uint64_t take_untied(uint64_t wanted)
{
	uint64_t untied;

	NVS_HOLD(&lock);
	untied = wanted & ~tied_devices;
	if (!tied_devices && syscall(SYS_getrandom, own_key, sizeof(own_key), 0) != sizeof(own_key))
		untied = 0;
	tied_devices |= untied;
	return untied;
}

void nvs_tie_devices(uint64_t wanted)
{
	uint64_t untied = take_untied(wanted), told = 0;

	NVS_EACH_DEVICE(device, untied)
		if (nvs_tie(device, own_key, NVS_TIE_MEMORY, 0))
			told |= 1ULL << device->ordinal;
	NVS_EACH_DEVICE(device, told)
		nvs_tie_wait(device, own_key, NVS_TIE_MEMORY);
}

bool nvs_ties_hold(uint64_t wanted)
{
	NVS_HOLD(&lock);
	for (int ordinal = 0; wanted >> ordinal; ordinal++)
		if (wanted >> ordinal & 1 && (devices[ordinal].link == NVS_TIES_LINK_WITHOUT ||
					      !nvs_tie_list_holds(&devices[ordinal].list)))
			return false;
	return true;
}

void nvs_ties_begin(struct nvs_device *device)
{
	nvs_mutex_lock(&lock);
	devices[device->ordinal].link = NVS_TIES_LINK_TRYING;
	if (nvs_config()->gang == NVS_GANG_NAMED)
		nvs_tie_list_add(&devices[device->ordinal].list, nvs_config()->gang_key,
				 NVS_TIE_NAME, nvs_config()->gang_size);
	nvs_mutex_unlock(&lock);
	if (nvs_config()->gang == NVS_GANG_NAMED)
		report(device, NVS_TIE_NAME);
}

void nvs_ties_forked(void)
{
	nvs_mutex_forked(&lock);
	tied_devices = 0;
	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++)
		devices[ordinal].list.count = 0;
}

static void wake(void)
{
	atomic_fetch_add(&changes, 1);
	nvs_futex_wake(&changes, INT_MAX);
}

void nvs_ties_link(struct nvs_device *device, enum nvs_ties_link link)
{
	bool changed;

	nvs_mutex_lock(&lock);
	changed = devices[device->ordinal].link != (int)link;
	devices[device->ordinal].link = (int)link;
	if (changed && link == NVS_TIES_LINK_UP)
		nvs_tie_list_forget(&devices[device->ordinal].list);
	nvs_mutex_unlock(&lock);
	if (changed)
		wake();
}

bool nvs_ties_say(struct nvs_device *device, struct nvs_frame *frame)
{
	NVS_HOLD(&lock);
	return devices[device->ordinal].link == NVS_TIES_LINK_UP &&
	       nvs_tie_list_say(&devices[device->ordinal].list, frame);
}

bool nvs_ties_heard(struct nvs_device *device, const struct nvs_frame *frame)
{
	bool right;

	nvs_mutex_lock(&lock);
	right = devices[device->ordinal].link == NVS_TIES_LINK_UP &&
		nvs_tie_list_heard(&devices[device->ordinal].list, frame->request);
	nvs_mutex_unlock(&lock);
	if (right)
		wake();
	return right;
}
