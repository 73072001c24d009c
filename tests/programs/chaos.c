/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU program without end, for the chaos tests: chaos KERNELS.PTX PAGE SEED DEVICE...
 *
 * Round by round it does something that the seed chooses, on one of the devices, and checks the
 * result: kernels on several streams and threads, captures, forks, contexts that come and go,
 * memory that is kept, and work that waits for what is submitted later. Now and then it closes all
 * descriptors that it does not know, or a kernel faults: then it lives on for a while, and begins
 * anew. PAGE is a file of struct page, which it shares with the test. Exit status 0: it was told to
 * stop, and every result was right. Anything else is told on stderr.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "belongings.h"
#include "program.h"

#define ELEMENTS 1024
#define BLOCK 256
#define MAX_DEVICES 8
#define HOST_MAPPED 2u
#define MILLISECOND 1000000ull
#define NOWHERE 0x10ull /* no memory of the device is there */
#define ILLEGAL_ADDRESS 700
#define UNKNOWN \
	100u /* from this number on descriptors are neither the program's nor the driver's */

/* tests/chaos/programs.py has the same. */
struct page {
	_Atomic uint64_t rounds;
	_Atomic uint32_t stop;
};

struct place {
	CUcontext context;
	CUdevice device;
	CUfunction fill, axpy, spin;
	struct belongings belongings;
};

/* One strand of work: a thread has one, with its own numbers. */
struct strand {
	struct place *place;
	uint64_t random;
	CUstream stream;
	CUdeviceptr x, y;
	float expected;
};

static char **command;
static const char *image;
static struct page *page;

/* xorshift64: the same seed does the same things. */
static uint32_t below(uint64_t *random, uint32_t limit)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (uint32_t)((*random >> 32) % limit);
}

static void load(struct place *place)
{
	CUmodule module;

	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&place->fill, module, "nvs_fill_f32"));
	CHECK(cuModuleGetFunction(&place->axpy, module, "nvs_axpy"));
	CHECK(cuModuleGetFunction(&place->spin, module, "nvs_spin"));
}

static void launch(CUfunction function, CUstream stream, void **parameters)
{
	CHECK(cuLaunchKernel(function, ELEMENTS / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters,
			     NULL));
}

static void fill(const struct strand *strand, CUdeviceptr address, float value)
{
	unsigned long long count = ELEMENTS;
	void *parameters[] = { &address, &value, &count };

	launch(strand->place->fill, strand->stream, parameters);
}

static void spin(const struct place *place, CUstream stream, unsigned long long ns)
{
	void *parameters[] = { &ns };

	CHECK(cuLaunchKernel(place->spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* y += factor * x, and x is 2 everywhere. */
static void add(struct strand *strand)
{
	float factor = (float)below(&strand->random, 8);
	unsigned long long count = ELEMENTS;
	void *parameters[] = { &factor, &strand->x, &strand->y, &count };

	launch(strand->place->axpy, strand->stream, parameters);
	strand->expected += 2 * factor;
}

static void begin(struct strand *strand)
{
	CHECK(cuCtxSetCurrent(strand->place->context));
	CHECK(cuStreamCreate(&strand->stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&strand->x, ELEMENTS * sizeof(float)));
	CHECK(cuMemAlloc_v2(&strand->y, ELEMENTS * sizeof(float)));
	strand->expected = (float)below(&strand->random, 100);
	fill(strand, strand->x, 2.0f);
	fill(strand, strand->y, strand->expected);
}

static void end(struct strand *strand)
{
	float values[ELEMENTS];

	CHECK(cuMemcpyDtoHAsync_v2(values, strand->y, sizeof(values), strand->stream));
	CHECK(cuStreamSynchronize(strand->stream));
	for (int i = 0; i < ELEMENTS; i++) {
		if (values[i] == strand->expected)
			continue;
		fprintf(stderr, "chaos: element %d is %g, not %g\n", i, values[i],
			strand->expected);
		exit(1);
	}
	CHECK(cuMemFree_v2(strand->x));
	CHECK(cuMemFree_v2(strand->y));
	CHECK(cuStreamDestroy_v2(strand->stream));
}

static void compute(struct strand *strand)
{
	begin(strand);
	for (uint32_t left = 1 + below(&strand->random, 20); left; left--) {
		add(strand);
		spin(strand->place, strand->stream, below(&strand->random, 3) * MILLISECOND);
	}
	end(strand);
}

static void *compute_in_thread(void *strand)
{
	compute(strand);
	return NULL;
}

static void compute_in_threads(struct strand *strand)
{
	struct strand others[2] = { *strand, *strand };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++) {
		others[i].random += (uint64_t)i + 1;
		pthread_create(&threads[i], NULL, compute_in_thread, &others[i]);
	}
	compute(strand);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void compute_for_long(struct strand *strand)
{
	begin(strand);
	spin(strand->place, strand->stream, (50 + below(&strand->random, 250)) * MILLISECOND);
	add(strand);
	end(strand);
}

static void compute_by_graph(struct strand *strand)
{
	float before;
	CUgraph graph;
	CUgraphExec executable;
	uint32_t launches = 1 + below(&strand->random, 4);

	begin(strand);
	before = strand->expected;
	CHECK(cuStreamBeginCapture_v2(strand->stream, (int)below(&strand->random, 3)));
	add(strand);
	usleep(below(&strand->random, 3000));
	add(strand);
	CHECK(cuStreamEndCapture(strand->stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	for (uint32_t i = 0; i < launches; i++)
		CHECK(cuGraphLaunch(executable, strand->stream));
	strand->expected = before + (float)launches * (strand->expected - before);
	CHECK(cuStreamSynchronize(strand->stream));
	CHECK(cuGraphExecDestroy(executable));
	CHECK(cuGraphDestroy(graph));
	end(strand);
}

/* What is queued waits for a value that is written by what is submitted after it. */
static void wait_for_a_value(struct strand *strand)
{
	CUstream writer;
	void *value;

	CHECK(cuMemHostAlloc(&value, 4096, HOST_MAPPED));
	memset(value, 0, 4096);
	begin(strand);
	CHECK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamWaitValue32_v2(strand->stream, (CUdeviceptr)value, 1, 0));
	add(strand);
	usleep(below(&strand->random, 5000));
	CHECK(cuStreamWriteValue32_v2(writer, (CUdeviceptr)value, 1, 0));
	end(strand);
	CHECK(cuStreamDestroy_v2(writer));
	CHECK(cuMemFreeHost(value));
}

static void take_and_give(void *mutex)
{
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
}

/* What is queued waits for a mutex that is held while more is submitted. */
static void wait_for_a_mutex(struct strand *strand)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	begin(strand);
	pthread_mutex_lock(&mutex);
	CHECK(cuLaunchHostFunc(strand->stream, take_and_give, &mutex));
	usleep(below(&strand->random, 5000));
	add(strand);
	add(strand);
	pthread_mutex_unlock(&mutex);
	end(strand);
}

static void compute_in_a_context_of_its_own(struct strand *strand)
{
	struct place own = *strand->place;
	struct strand inside = { .place = &own, .random = strand->random };

	CHECK(cuCtxCreate_v2(&own.context, 0, own.device));
	load(&own);
	compute(&inside);
	CHECK(cuCtxDestroy_v2(own.context));
}

/* A child must not use the GPU after its parent has; it may do anything else, and end. */
static void fork_beside(struct strand *strand)
{
	bool execs = below(&strand->random, 2);
	int status;
	pid_t child;

	begin(strand);
	add(strand);
	child = fork();
	if (child == 0) {
		if (execs)
			execl("/bin/true", "true", (char *)NULL);
		_exit(0);
	}
	add(strand);
	end(strand);
	if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
		return;
	fprintf(stderr, "chaos: a child failed\n");
	exit(1);
}

/* Only the program's first thread does this, and the threads of the other deeds have ended. */
static void keep(struct strand *strand)
{
	struct belongings *all = &strand->place->belongings;

	CHECK(cuCtxSetCurrent(strand->place->context));
	all->device = strand->place->device;
	all->fill = strand->place->fill;
	all->axpy = strand->place->axpy;
	CHECK(cuStreamCreate(&all->stream, CU_STREAM_NON_BLOCKING));
	for (uint32_t left = 1 + below(&strand->random, 6); left; left--) {
		exchange(all, below(&strand->random, UINT32_MAX));
		use(all, below(&strand->random, UINT32_MAX));
		replay(all, below(&strand->random, UINT32_MAX));
	}
	CHECK(cuStreamDestroy_v2(all->stream));
}

/* As a daemon does. Seldom: whose connection is lost again and again is not awaited any more. */
static void close_the_unknown(struct strand *strand)
{
	if (below(&strand->random, 8)) {
		compute(strand);
		return;
	}
	begin(strand);
	add(strand);
	syscall(SYS_close_range, UNKNOWN, ~0u, 0u);
	add(strand);
	end(strand);
}

static void must_fail(const char *what, CUresult result)
{
	if (result == ILLEGAL_ADDRESS)
		return;
	fprintf(stderr, "chaos: %s answered %d after a fault\n", what, result);
	exit(1);
}

/* A notebook whose kernel wrote to nowhere: no call works any more, but it lives on, and begins
 * anew. */
static void fault(struct strand *strand)
{
	char seed[16];

	if (below(&strand->random, 4)) {
		compute(strand);
		return;
	}
	begin(strand);
	fill(strand, NOWHERE, 1.0f);
	must_fail("cuStreamSynchronize", cuStreamSynchronize(strand->stream));
	for (uint32_t left = below(&strand->random, 5); left; left--) {
		usleep(below(&strand->random, 500000));
		must_fail("cuStreamCreate", cuStreamCreate(&strand->stream, 0));
	}
	snprintf(seed, sizeof(seed), "%u", below(&strand->random, UINT32_MAX));
	command[3] = seed;
	execv("/proc/self/exe", command);
	perror("chaos: execv");
	exit(1);
}

static void (*const deeds[])(struct strand *) = {
	compute,
	compute,
	compute_in_threads,
	compute_for_long,
	compute_by_graph,
	wait_for_a_value,
	wait_for_a_mutex,
	compute_in_a_context_of_its_own,
	fork_beside,
	keep,
	keep,
	keep,
	close_the_unknown,
	fault,
};

static struct page *page_of(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);
	void *mapped = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	return mapped == MAP_FAILED ? NULL : mapped;
}

int main(int argc, char **argv)
{
	static struct place places[MAX_DEVICES];
	uint64_t random;
	int count = argc - 4;

	if (count < 1 || count > MAX_DEVICES || !(image = text_of(argv[1])) ||
	    !(page = page_of(argv[2]))) {
		fprintf(stderr, "usage: chaos KERNELS.PTX PAGE SEED DEVICE...\n");
		return 2;
	}
	command = argv;
	random = strtoull(argv[3], NULL, 10) * 2 + 1;
	CHECK(cuInit(0));
	for (int i = 0; i < count; i++) {
		CHECK(cuDeviceGet(&places[i].device, atoi(argv[4 + i])));
		CHECK(cuDevicePrimaryCtxRetain(&places[i].context, places[i].device));
		CHECK(cuCtxSetCurrent(places[i].context));
		load(&places[i]);
	}
	while (!atomic_load(&page->stop)) {
		struct strand strand = { .place = &places[below(&random, (uint32_t)count)] };

		strand.random = random + 1;
		deeds[below(&random, sizeof(deeds) / sizeof(deeds[0]))](&strand);
		atomic_fetch_add(&page->rounds, 1);
		usleep(below(&random, 10) ? 0 : below(&random, 30000));
	}
	return 0;
}
