/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what each device's account adds up to. A device's lock protects its sums and is held for
 * additions only; the sum of what is charged is the device's footprint_bytes, which is written
 * under that lock and read without.
 */
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>

#include "client.h"
#include "config.h"
#include "device.h"
#include "driver.h"
#include "log.h"
#include "pools.h"

struct sums {
	pthread_mutex_t lock;
	uint64_t reserved;				  /* by calls that have not returned */
	uint64_t graph_bytes;				  /* charged for graphs */
	bool refused;					  /* and said so */
	const struct nvs_memory_backend *_Atomic backend; /* NULL: not chosen yet */
};

static struct sums sums[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
					      1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

_Atomic bool nvs_memory_graphs_allocate;

static const struct nvs_memory_backend *choose_backend(const struct nvs_device *device)
{
	int managed = 0;

	if (nvs_config()->memory == NVS_BACKEND_NATIVE)
		return &nvs_memory_native;
	NVS_CALL(cuDeviceGetAttribute, &managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
		 device->ordinal);
	if (managed)
		return &nvs_memory_managed;
	nvs_log("device %d has no managed memory; its memory is only counted "
		"(NVSHARE_MEMORY=native)",
		device->ordinal);
	return &nvs_memory_native;
}

const struct nvs_memory_backend *nvs_memory_of(const struct nvs_device *device)
{
	struct sums *sum = &sums[device->ordinal];
	const struct nvs_memory_backend *backend = atomic_load(&sum->backend), *chosen;

	if (backend)
		return backend;
	chosen = choose_backend(device);
	return atomic_compare_exchange_strong(&sum->backend, &backend, chosen) ? chosen : backend;
}

enum nvs_wire_backend nvs_memory_wire_backend(const struct nvs_device *device)
{
	return nvs_memory_of(device)->wire;
}

/* The first refusal is said; programs that try again with less would fill the screen. */
static void say_refused(struct nvs_device *device, uint64_t allocatable, uint64_t used,
			uint64_t asked)
{
	nvs_log("out of memory on device %d: limit %llu, used %llu, requested %llu bytes",
		device->ordinal, (unsigned long long)allocatable, (unsigned long long)used,
		(unsigned long long)asked);
}

bool nvs_memory_reserve(struct nvs_device *device, uint64_t bytes)
{
	struct sums *sum = &sums[device->ordinal];
	uint64_t allocatable = nvs_memory_of(device)->allocatable(device), used;
	bool fits, first = false;

	pthread_mutex_lock(&sum->lock);
	used = atomic_load(&device->footprint_bytes) + sum->reserved;
	fits = used <= allocatable && bytes <= allocatable - used;
	if (fits) {
		sum->reserved += bytes;
	} else {
		first = !sum->refused;
		sum->refused = true;
	}
	pthread_mutex_unlock(&sum->lock);
	if (first)
		say_refused(device, allocatable, used, bytes);
	return fits;
}

/* With the lock held. */
static void change_footprint(struct nvs_device *device, int64_t charged)
{
	uint64_t before = atomic_load(&device->footprint_bytes);

	atomic_store(&device->footprint_bytes, before + (uint64_t)charged);
}

void nvs_memory_settle(struct nvs_device *device, uint64_t reserved, int64_t charged)
{
	struct sums *sum = &sums[device->ordinal];

	pthread_mutex_lock(&sum->lock);
	sum->reserved -= reserved;
	change_footprint(device, charged);
	pthread_mutex_unlock(&sum->lock);
	if (charged)
		nvs_client_footprint(device);
}

void nvs_memory_charge(const struct nvs_entry *entry, uint64_t reserved)
{
	/* Without host memory for its entry it stays charged for good, rather than never. */
	nvs_account_add(entry);
	nvs_memory_settle(nvs_device_known(entry->device), reserved, (int64_t)entry->bytes);
}

void nvs_memory_discharge(const struct nvs_entry *entry)
{
	if (entry->pool)
		nvs_pool_discharge(entry);
	else
		nvs_memory_settle(nvs_device_known(entry->device), 0, -(int64_t)entry->bytes);
}

void nvs_memory_context_gone(CUcontext context)
{
	if (context)
		nvs_account_sweep(context, nvs_memory_discharge);
}

void nvs_memory_graphs_ran(struct nvs_device *device)
{
	struct sums *sum = &sums[device->ordinal];
	cuuint64_t bytes;

	if (NVS_CALL(cuDeviceGetGraphMemAttribute, device->ordinal,
		     CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) != CUDA_SUCCESS)
		return;
	pthread_mutex_lock(&sum->lock);
	change_footprint(device, (int64_t)(bytes - sum->graph_bytes));
	sum->graph_bytes = bytes;
	pthread_mutex_unlock(&sum->lock);
	nvs_client_footprint(device);
}

void nvs_memory_forked(void)
{
	for (struct sums *sum = sums; sum < sums + NVS_MAX_DEVICES; sum++) {
		sum->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
		sum->reserved = sum->graph_bytes = 0;
	}
	atomic_store(&nvs_memory_graphs_allocate, false);
	nvs_account_forget();
	nvs_pools_forked();
}
