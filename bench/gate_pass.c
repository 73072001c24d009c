/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hook costs when the gate is open: gate_pass DRIVER THREADS prints nanoseconds per call of
 * cuMemsetD8_v2, straight and through the hook, as the best of several rounds. DRIVER is made from
 * idle_driver.c.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "abi.h"

#define CALLS 2000000
#define ROUNDS 7
#define MOST_THREADS 64

typedef CUresult (*fill)(CUdeviceptr to, unsigned char value, size_t bytes);
typedef CUresult (*retain)(CUcontext *context, CUdevice device);

static fill function;
static pthread_barrier_t start;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void *round_of_calls(void *nanoseconds)
{
	double begin;

	function(0, 0, 0);
	pthread_barrier_wait(&start);
	begin = now();
	for (int i = 0; i < CALLS; i++)
		function(0, 0, 0);
	*(double *)nanoseconds = (now() - begin) / CALLS;
	return NULL;
}

static double measure(int threads)
{
	double best = 1e9, each[MOST_THREADS];
	pthread_t ids[MOST_THREADS];

	for (int round = 0; round < ROUNDS; round++) {
		double sum = 0;

		pthread_barrier_init(&start, NULL, (unsigned int)threads);
		for (int i = 0; i < threads; i++)
			pthread_create(&ids[i], NULL, round_of_calls, &each[i]);
		for (int i = 0; i < threads; i++) {
			pthread_join(ids[i], NULL);
			sum += each[i];
		}
		best = sum / threads < best ? sum / threads : best;
		pthread_barrier_destroy(&start);
	}
	return best;
}

int main(int argc, char **argv)
{
	void *driver = dlopen(argv[1], RTLD_NOW);
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	double straight, hooked;
	CUcontext context;

	if (!driver || threads < 1 || threads > MOST_THREADS)
		return 1;
	((retain)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
	function = (fill)dlsym(driver, "idle_cuMemsetD8_v2");
	straight = measure(threads);
	function = (fill)dlsym(driver, "cuMemsetD8_v2");
	hooked = measure(threads);
	printf("%d %.2f %.2f\n", threads, straight, hooked);
	return 0;
}
