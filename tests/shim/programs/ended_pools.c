/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool is destroyed while another thread has an allocation of it on the way into the book: before
 * that is charged, or while the driver is asked what the pool keeps. Prints what stays charged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/pools.h"
#include "memory/room.h"
#include "process/report.h"

#define POOL ((CUmemoryPool)0x100)
#define BYTES 1000

struct nvs_real nvs_real;
static struct nvs_device device;
static int64_t footprint;
static bool destroys; /* the next question about the pool comes too late */

/* What the rest of the library would do. */

void nvs_driver_load(void)
{
}

struct nvs_device *nvs_device_of_pointer(CUdeviceptr pointer)
{
	(void)pointer;
	return &device;
}

bool nvs_account_add(const struct nvs_entry *entry)
{
	(void)entry;
	return true;
}

void nvs_room_commit(struct nvs_device *of, uint64_t given, int64_t charged)
{
	(void)of, (void)given;
	footprint += charged;
}

void nvs_report_bytes(int ordinal, enum nvs_report_bytes kind, int64_t change)
{
	(void)ordinal, (void)kind, (void)change;
}

/* The driver's. A pool keeps more than was allocated from it. */
static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	cuuint64_t most = 10 * BYTES;

	(void)attribute;
	if (destroys)
		nvs_pool_destroyed(pool);
	destroys = false;
	memcpy(value, &most, sizeof(most));
	return CUDA_SUCCESS;
}

static struct nvs_entry allocate(struct nvs_pool *pool)
{
	struct nvs_entry entry = { .kind = NVS_ENTRY_POINTER, .bytes = BYTES };

	nvs_pool_charge(pool, &entry, &device, BYTES);
	return entry;
}

static void say(const char *when)
{
	printf("%s: %lld\n", when, (long long)footprint);
}

int main(void)
{
	struct nvs_entry entry;
	struct nvs_pool *pool;

	nvs_real.cuMemPoolGetAttribute = get_attribute;
	entry = allocate(nvs_pool_use(POOL, 1));
	nvs_pool_discharge(&entry);
	say("kept");
	pool = nvs_pool_use(POOL, 1);
	nvs_pool_destroyed(POOL);
	/* Whoever gets what was given back writes to it. */
	for (size_t bytes = 16; bytes <= 128; bytes += 16)
		memset(malloc(bytes), 0xff, bytes);
	entry = allocate(pool);
	say("allocated");
	nvs_pool_discharge(&entry);
	say("freed");
	pool = nvs_pool_use(POOL, 1);
	destroys = true;
	entry = allocate(pool);
	say("allocated");
	nvs_pool_discharge(&entry);
	say("freed");
	return 0;
}
