/* SPDX-License-Identifier: Apache-2.0 */
/* Completion marks. Everything about a fence is protected by sim.lock. */
#include <stdlib.h>

#include "stream/stream.h"

struct sim_fence *sim_fence_new(void)
{
	struct sim_fence *fence = calloc(1, sizeof(*fence));

	fence->references = 1;
	return fence;
}

struct sim_fence *sim_fence_ref(struct sim_fence *fence)
{
	if (fence)
		fence->references++;
	return fence;
}

void sim_fence_unref(struct sim_fence *fence)
{
	if (fence && --fence->references == 0)
		free(fence);
}

void sim_wait_locked(struct sim_fence *fence)
{
	if (!fence)
		return;
	sim_fence_ref(fence);
	while (!fence->done)
		pthread_cond_wait(&sim.changed, &sim.lock);
	sim_fence_unref(fence);
}
