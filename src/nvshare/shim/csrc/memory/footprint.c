/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the sums of each device. A device's lock protects them and is held for additions only; the
 * sum of what is charged is the device's footprint_bytes, which is written under that lock and read
 * without.
 */
#include "memory/footprint.h"

#include <pthread.h>
#include <stdatomic.h>

#include "gate/device.h"
#include "gate/marks.h"
#include "memory/limit.h"
#include "memory/room.h"
#include "process/clock.h"
#include "process/report.h"

/*
 * How long a free of another process of the container may be on the way: it is told after 10 ms at
 * the latest, by threads that may have to wait for a processor.
 */
#define FREED_NS 100000000ull

struct sums {
	pthread_mutex_t lock;
	_Atomic bool asks;    /* the scheduler (room.h) says what may be reserved */
	uint64_t reserved;    /* by calls that have not returned */
	uint64_t graph_bytes; /* charged for graphs */
	bool refused;	      /* and said so */
};

static struct sums sums[NVS_MAX_DEVICES] = { [0 ... NVS_MAX_DEVICES -
					      1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

/*
 * Whether nothing was refused before. The first refusal is said; programs that try again with less
 * would fill the screen.
 */
static bool first_refused(struct sums *sum)
{
	bool first;

	pthread_mutex_lock(&sum->lock);
	first = !sum->refused;
	sum->refused = true;
	pthread_mutex_unlock(&sum->lock);
	return first;
}

bool nvs_footprint_possible(struct nvs_device *device, uint64_t bytes)
{
	if (bytes <= device->total_bytes)
		return true;
	if (first_refused(&sums[device->ordinal]))
		nvs_limit_say(device->ordinal, device->total_bytes,
			      nvs_room_footprint(device) + nvs_room_fixed(device), bytes,
			      "more than the device has");
	return false;
}

void nvs_footprint_ask_room(const struct nvs_device *device)
{
	sums[device->ordinal].asks = true;
}

bool nvs_footprint_reserve(struct nvs_device *device, uint64_t bytes, uint64_t allocatable)
{
	struct sums *sum = &sums[device->ordinal];
	struct nvs_limit limit;
	uint64_t used, deadline = 0;
	uint32_t news;
	bool allowed, fits;

	if (sum->asks)
		return nvs_footprint_possible(device, bytes) && nvs_room_ask_fixed(device, bytes);
	if (!nvs_limit_await(device))
		return false;
	do {
		news = nvs_limit_news();
		limit = nvs_limit_of(device->ordinal);
		pthread_mutex_lock(&sum->lock);
		used = atomic_load(&device->footprint_bytes) + sum->reserved;
		allowed = bytes <= nvs_limit_left(&limit, used);
		fits = allowed && used <= allocatable && bytes <= allocatable - used;
		sum->reserved += fits ? bytes : 0;
		pthread_mutex_unlock(&sum->lock);
		if (!allowed && !deadline)
			deadline = nvs_now_ns() + FREED_NS;
	} while (!allowed && nvs_limit_may_soon(&limit, used, bytes) &&
		 nvs_limit_wait(news, deadline));
	if (!fits && first_refused(sum))
		nvs_limit_say(device->ordinal, allowed ? allocatable : limit.bytes,
			      allowed ? used : used + limit.others_bytes, bytes,
			      allowed ? "" : "the container's memory limit");
	return fits;
}

/* With the lock held. */
static void change(struct nvs_device *device, int64_t charged)
{
	uint64_t before = atomic_load(&device->footprint_bytes);

	atomic_store(&device->footprint_bytes, before + (uint64_t)charged);
	nvs_marks_report(device);
	if (!sums[device->ordinal].asks)
		nvs_report_sums(device->ordinal, 0, before + (uint64_t)charged);
}

void nvs_footprint_commit(struct nvs_device *device, uint64_t reserved, int64_t charged)
{
	struct sums *sum = &sums[device->ordinal];

	pthread_mutex_lock(&sum->lock);
	sum->reserved -= sum->asks ? 0 : reserved;
	change(device, charged);
	pthread_mutex_unlock(&sum->lock);
	if (sum->asks && charged != (int64_t)reserved)
		nvs_room_count_fixed(device, charged - (int64_t)reserved);
	if (charged)
		device->listener->footprint_changed(device);
}

void nvs_footprint_set_graphs(struct nvs_device *device, uint64_t bytes)
{
	struct sums *sum = &sums[device->ordinal];
	int64_t grown;

	pthread_mutex_lock(&sum->lock);
	grown = (int64_t)(bytes - sum->graph_bytes);
	change(device, grown);
	sum->graph_bytes = bytes;
	pthread_mutex_unlock(&sum->lock);
	nvs_report_bytes(device->ordinal, NVS_BYTES_GRAPHS, grown);
	if (sum->asks && grown)
		nvs_room_count_fixed(device, grown);
	device->listener->footprint_changed(device);
}

void nvs_footprints_forked(void)
{
	for (struct sums *sum = sums; sum < sums + NVS_MAX_DEVICES; sum++) {
		sum->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
		sum->reserved = sum->graph_bytes = 0;
		sum->asks = false;
	}
}
