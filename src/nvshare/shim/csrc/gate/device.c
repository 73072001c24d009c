/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the records of the devices that this process uses.
 *
 * `use_lock` protects the creation of records; `ready` publishes them. A record is never freed. The
 * driver is not called while the lock is held.
 */
#define _GNU_SOURCE
#include "gate/device.h"

#include <string.h>

#include "driver/driver.h"
#include "driver/nvml.h"
#include "driver/watch.h"
#include "process/ends.h"
#include "process/mutex.h"
#include "process/report.h"

#define REMEMBERED_NS 60000000000u    /* how long after the last sign of others */
#define UNMOVED_BYTES (1536ull << 20) /* contexts and modules, which do not move */

_Atomic(struct nvs_device *) nvs_device_only;

/* The linker's name for where the section begins. */
extern nvs_device_starter *__start_nvs_device_starter[] __attribute__((visibility("hidden")));

static struct nvs_mutex use_lock = NVS_MUTEX(NVS_ORDER_DEVICES);
static struct nvs_device devices[NVS_MAX_DEVICES];
static _Atomic uint64_t ready; /* a bit for every record in use */

struct nvs_device *nvs_device_known(int ordinal)
{
	uint64_t known = atomic_load_explicit(&ready, memory_order_acquire);

	return ordinal >= 0 && ordinal < NVS_MAX_DEVICES && known >> ordinal & 1 ? &devices[ordinal]
										 : NULL;
}

struct nvs_device *nvs_device_after(const struct nvs_device *before, uint64_t mask)
{
	uint64_t left = mask & atomic_load_explicit(&ready, memory_order_acquire);

	if (before)
		left &= ~1ULL << before->ordinal;
	return left ? &devices[__builtin_ctzll(left)] : NULL;
}

void nvs_device_tell_others(struct nvs_device *device, bool others_wait, bool waits, bool together,
			    uint64_t now_ns)
{
	uint64_t before = atomic_load(&device->contended_until_ns);

	if (others_wait || (waits && before))
		atomic_store(&device->contended_until_ns, UINT64_MAX);
	else if (together)
		atomic_store(&device->contended_until_ns, 0);
	else if (before == UINT64_MAX)
		atomic_store(&device->contended_until_ns, now_ns + REMEMBERED_NS);
}

void nvs_devices_forked(void)
{
	nvs_mutex_forked(&use_lock);
	atomic_store(&ready, 0);
	atomic_store(&nvs_device_only, NULL);
	memset(devices, 0, sizeof(devices));
}

/* With the lock held. */
static void publish(const struct nvs_device *filled)
{
	struct nvs_device *device = &devices[filled->ordinal];
	uint64_t before = atomic_load(&ready), bit = 1ULL << filled->ordinal;

	*device = *filled;
	__start_nvs_device_starter[0](device);
	atomic_store(&nvs_device_only, before ? NULL : device);
	atomic_store_explicit(&ready, before | bit, memory_order_release);
}

uint64_t nvs_device_usable_bytes(const struct nvs_device *device)
{
	uint64_t tenth = device->total_bytes / 10;

	return device->total_bytes - (tenth < UNMOVED_BYTES ? tenth : UNMOVED_BYTES);
}

static void report(const struct nvs_device *device)
{
	struct nvs_report_device *reported = nvs_report_device(device->ordinal);

	if (!reported)
		return;
	memcpy(reported->uuid, device->uuid, sizeof(reported->uuid));
	__atomic_fetch_or(&reported->flags, NVS_REPORT_USED, __ATOMIC_RELAXED);
}

struct nvs_device *nvs_device_use(int ordinal)
{
	struct nvs_device filled = { .ordinal = ordinal };
	CUuuid uuid;
	size_t bytes;
	NVS_KEEP_ERRNO;

	if (nvs_device_known(ordinal) || ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return nvs_device_known(ordinal);
	nvs_watch_look();
	nvs_nvml_look();
	if (NVS_CALL(cuDeviceGetUuid_v2, &uuid, ordinal) != CUDA_SUCCESS &&
	    NVS_CALL(cuDeviceGetUuid, &uuid, ordinal) != CUDA_SUCCESS)
		return NULL;
	if (NVS_CALL(cuDeviceTotalMem_v2, &bytes, ordinal) != CUDA_SUCCESS)
		return NULL;
	memcpy(filled.uuid, uuid.bytes, sizeof(filled.uuid));
	filled.total_bytes = bytes;
	nvs_mutex_lock(&use_lock);
	if (!nvs_device_known(ordinal))
		publish(&filled);
	nvs_mutex_unlock(&use_lock);
	report(&filled);
	return nvs_device_known(ordinal);
}
