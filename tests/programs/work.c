/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU program of several threads and two processes, whose results are known: work KERNELS.PTX
 * THREADS ROUNDS.
 *
 * Every thread has a stream of its own, allocates, fills, adds, copies back, compares and frees,
 * ROUNDS times; thread 0 replays a captured graph besides. A child, forked before CUDA is used,
 * does the same once at the same time. Exit status 0 and "right" on stdout: all values were as
 * expected. Anything else is told on stderr.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define ELEMENTS 4096
#define BLOCK 256
#define REPLAYS 3
#define MAX_THREADS 16

struct kernels {
	CUfunction fill;
	CUfunction axpy;
};

struct worker {
	pthread_t id;
	int number;
	int rounds;
	CUcontext context;
	const struct kernels *kernels;
};

static void launch(CUfunction function, CUstream stream, void **parameters)
{
	CHECK(cuLaunchKernel(function, ELEMENTS / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters,
			     NULL));
}

static void fill(const struct kernels *kernels, CUdeviceptr address, float value, CUstream stream)
{
	unsigned long long count = ELEMENTS;
	void *parameters[] = { &address, &value, &count };

	launch(kernels->fill, stream, parameters);
}

/* y += factor * x */
static void add(const struct kernels *kernels, float factor, CUdeviceptr x, CUdeviceptr y,
		CUstream stream)
{
	unsigned long long count = ELEMENTS;
	void *parameters[] = { &factor, &x, &y, &count };

	launch(kernels->axpy, stream, parameters);
}

/* Adds x to y REPLAYS times, by a graph that is captured once. */
static void add_by_graph(const struct kernels *kernels, CUdeviceptr x, CUdeviceptr y,
			 CUstream stream)
{
	CUgraph graph;
	CUgraphExec executable;

	CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	add(kernels, 1.0f, x, y, stream);
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	for (int i = 0; i < REPLAYS; i++)
		CHECK(cuGraphLaunch(executable, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuGraphExecDestroy(executable));
	CHECK(cuGraphDestroy(graph));
}

static void expect(const float *values, float expected)
{
	for (int i = 0; i < ELEMENTS; i++) {
		if (values[i] == expected)
			continue;
		fprintf(stderr, "work: element %d is %g, not %g\n", i, values[i], expected);
		exit(1);
	}
}

static void *work(void *argument)
{
	const struct worker *worker = argument;
	const bool with_graph = worker->number == 0;
	static _Thread_local float values[ELEMENTS];
	CUdeviceptr x, y;
	CUstream stream;

	CHECK(cuCtxSetCurrent(worker->context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int round = 0; round < worker->rounds; round++) {
		CHECK(cuMemAlloc_v2(&x, sizeof(values)));
		CHECK(cuMemAlloc_v2(&y, sizeof(values)));
		fill(worker->kernels, x, 2.0f, stream);
		fill(worker->kernels, y, (float)worker->number, stream);
		add(worker->kernels, (float)round, x, y, stream);
		if (with_graph)
			add_by_graph(worker->kernels, x, y, stream);
		CHECK(cuMemcpyDtoHAsync_v2(values, y, sizeof(values), stream));
		CHECK(cuStreamSynchronize(stream));
		expect(values,
		       (float)(worker->number + 2 * round + (with_graph ? 2 * REPLAYS : 0)));
		CHECK(cuMemFree_v2(x));
		CHECK(cuMemFree_v2(y));
	}
	CHECK(cuStreamDestroy_v2(stream));
	return NULL;
}

static void run(const char *ptx, int threads, int rounds)
{
	struct worker workers[MAX_THREADS];
	struct kernels kernels;
	CUdevice device;
	CUcontext context;
	CUmodule module;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&kernels.fill, module, "nvs_fill_f32"));
	CHECK(cuModuleGetFunction(&kernels.axpy, module, "nvs_axpy"));
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.number = i, .rounds = rounds, .context = context, .kernels = &kernels
		};
		pthread_create(&workers[i].id, NULL, work, &workers[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].id, NULL);
	CHECK(cuDevicePrimaryCtxRelease_v2(device));
}

int main(int argc, char **argv)
{
	const char *ptx = argc == 4 ? text_of(argv[1]) : NULL;
	const int threads = ptx ? atoi(argv[2]) : 0;
	int status;
	pid_t child;

	if (threads < 1 || threads > MAX_THREADS) {
		fprintf(stderr, "usage: work KERNELS.PTX THREADS ROUNDS, with 1 to %d threads\n",
			MAX_THREADS);
		return 2;
	}
	child = fork();
	if (child)
		run(ptx, threads, atoi(argv[3]));
	else
		run(ptx, 1, 1);
	if (!child)
		return 0;
	if (waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "work: the child ended with status %d\n", status);
		return 1;
	}
	puts("right");
	return 0;
}
