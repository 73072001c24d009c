/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns how many contexts of each device were given access to each other one's plain memory. `lock`
 * protects that, also while the chunks are told.
 */
#include "memory/swap/peers.h"

#include <string.h>

#include "gate/device.h"
#include "memory/swap/chunks.h"
#include "process/mutex.h"

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_PEERS);
static unsigned int given[NVS_MAX_DEVICES][NVS_MAX_DEVICES]; /* memory of the first to the second */

/* With the lock held. */
static uint64_t peers_of(const struct nvs_device *owner)
{
	uint64_t peers = 0;

	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++)
		if (given[owner->ordinal][ordinal])
			peers |= 1ULL << ordinal;
	return peers;
}

void nvs_peers_reach(const struct nvs_device *owner, uint64_t users)
{
	users &= ~(1ULL << owner->ordinal);
	for (int ordinal = 0; users; ordinal++, users >>= 1) {
		struct nvs_device *user = users & 1 ? nvs_device_use(ordinal) : NULL;

		if (user)
			atomic_fetch_or(&user->reaches, 1ULL << owner->ordinal);
	}
}

CUresult nvs_peers_change(struct nvs_device *owner, const struct nvs_device *user, int change)
{
	unsigned int *count = &given[owner->ordinal][user->ordinal];
	CUresult result = CUDA_SUCCESS;

	if (owner == user)
		return result;
	if (change > 0)
		nvs_peers_reach(owner, 1ULL << user->ordinal);
	NVS_HOLD(&lock);
	/* It may have been given where no hook saw it. */
	if (change > 0 || *count) {
		*count += (unsigned int)change;
		result = nvs_chunks_allow(owner, peers_of(owner));
	}
	return result;
}

void nvs_peers_forked(void)
{
	nvs_mutex_forked(&lock);
	memset(given, 0, sizeof(given));
}
