/* SPDX-License-Identifier: Apache-2.0 */
/* Frees. */
#include <pthread.h>

#include "store.h"

/* Frees that the driver would refuse, wherever the memory is; and one that it would not. */
static void expect_frees(CUdeviceptr small, CUdeviceptr large, bool again)
{
	CUresult expected = again ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

	CHECK(cuMemFree_v2(small + 512) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(small + 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(large + 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(large + 64 * MIB) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(small) == expected);
	CHECK(cuMemFree_v2(large) == expected);
	OK(cuMemFree_v2(0));
}

void frees(void)
{
	CUdeviceptr small, large;

	begin();
	for (int out = 0; out < 2; out++) {
		OK(cuMemAlloc_v2(&small, 2000));
		OK(cuMemAlloc_v2(&large, 100 * MIB));
		if (out) {
			close_gate();
			while (send_out())
				;
		}
		expect_frees(small, large, false);
		expect_frees(small, large, true);
		if (out)
			open_gate();
	}
	CHECK(room.footprint == 2 * MIB);
}

/* Two threads free the same addresses: one of them succeeds. */
static CUdeviceptr shared_pointers[2000];
static _Atomic unsigned int successes;
static pthread_barrier_t both;

static void *free_shared(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(context));
	pthread_barrier_wait(&both);
	for (int i = 0; i < 2000; i++) {
		CUresult result = cuMemFree_v2(shared_pointers[i]);

		CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
		atomic_fetch_add(&successes, result == CUDA_SUCCESS);
	}
	return NULL;
}

void racing_frees(void)
{
	pthread_t threads[3];

	begin();
	for (int i = 0; i < 2000; i++)
		OK(cuMemAlloc_v2(&shared_pointers[i], i % 20 ? 1000 : 3 * MIB));
	pthread_barrier_init(&both, NULL, 3);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, free_shared, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(atomic_load(&successes) == 2000 && room.footprint == 2 * MIB);
}
