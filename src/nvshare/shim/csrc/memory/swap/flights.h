/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on their way out or in, several at once: while one is being copied the memory of another
 * is made or given back, and the link is never idle. For the mover of the device, with a context
 * current (copies.h); the chunks are in its hands.
 */
#pragma once

#include <stdbool.h>

#include "cuda/abi.h"
#include "memory/swap/copies.h"

struct nvs_chunk;
struct nvs_device;

/* What the event of a chunk on its way is behind. */
enum nvs_flight_stage {
	NVS_FLIGHT_NOTHING = 0,
	NVS_FLIGHT_HASH = 1, /* then it is known whether there is anything to copy */
	NVS_FLIGHT_COPY = 2
};

struct nvs_flights {
	struct nvs_device *device;
	struct nvs_copies copies;
	/* A ring: `count` of them from `first` on, the oldest first. */
	struct nvs_flight {
		struct nvs_chunk *chunk;
		enum nvs_flight_stage stage;
		bool copied, failed;
	} list[NVS_COPIES];
	unsigned int first, count;
	bool failed; /* a copy did; said so */
};

/* Another one may go. */
static inline bool nvs_flights_free(const struct nvs_flights *flights)
{
	return flights->count < NVS_COPIES;
}
/*
 * A chunk goes out, with granules for its copy, or is `clean`: then nothing is copied, nor where
 * the host copy has its contents already, or they are zeros. False: it could not be submitted.
 */
bool nvs_flights_leave(struct nvs_flights *flights, struct nvs_chunk *chunk, bool clean);
/* One that has device memory again goes in. False as above. */
bool nvs_flights_enter(struct nvs_flights *flights, struct nvs_chunk *chunk);
/* Waits for the oldest. If it failed, its contents have not come across. */
struct nvs_flight nvs_flights_land(struct nvs_flights *flights, bool out);
/* Once, until one comes across. */
void nvs_flights_say_failed(struct nvs_flights *flights, CUresult result, bool out);
