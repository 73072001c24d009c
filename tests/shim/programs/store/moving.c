/* SPDX-License-Identifier: Apache-2.0 */
/* Frees of what is moving. */
#define _GNU_SOURCE
#include <pthread.h>

#include "store.h"

/* A chunk in the mover's hands: the free returns when it is out of them. */
static _Atomic int freed;
static _Atomic int free_thread;
static struct nvs_chunk *held;

static void *free_it(void *pointer)
{
	atomic_store(&free_thread, gettid());
	OK(cuCtxSetCurrent(context));
	OK(cuMemFree_v2(*(CUdeviceptr *)pointer));
	atomic_store(&freed, 1);
	return NULL;
}

/* Until the thread sleeps, and has been for some looks. */
static void wait_until_asleep(void)
{
	char path[64], state = 0;
	int asleep = 0;

	while (!atomic_load(&free_thread))
		usleep(1000);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&free_thread));
	while (asleep < 20) {
		FILE *file = fopen(path, "r");

		CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
		fclose(file);
		asleep = state == 'S' ? asleep + 1 : 0;
		usleep(1000);
	}
}

/* The driver takes all of it back. */
static void leave(struct nvs_chunk *chunk)
{
	OK(nvs_chunk_out(chunk));
}

static void free_while_moving(void (*end)(struct nvs_chunk *chunk), bool in)
{
	CUdeviceptr pointer;
	struct nvs_chunk *chunk;
	CUresult result;
	pthread_t thread;

	begin();
	OK(cuMemAlloc_v2(&pointer, 5 * MIB));
	close_gate();
	if (in)
		CHECK(send_out());
	chunk = in ? nvs_chunk_begin_in(device, UINT64_MAX, &result)
		   : nvs_chunk_begin_out(device, UINT64_MAX);
	CHECK(chunk);
	pthread_create(&thread, NULL, free_it, &pointer);
	wait_until_asleep();
	CHECK(!atomic_load(&freed) && !atomic_load(&ended));
	/* What the mover tells the room. */
	if (in && end == nvs_chunk_in)
		count((int64_t)chunk->bytes);
	if (!in && end == leave)
		count(-(int64_t)chunk->bytes);
	end(chunk);
	pthread_join(thread, NULL);
	CHECK(atomic_load(&ended) == 1 && room.footprint == 0 && room.resident == 0);
	CHECK(nvs_chunks_resident(device) + nvs_chunks_out_bytes(device) == 0);
}

void free_moving_out(void)
{
	free_while_moving(leave, false);
}

void free_staying(void)
{
	free_while_moving(nvs_chunk_stays, false);
}

void free_moving_in(void)
{
	free_while_moving(nvs_chunk_in, true);
}

void free_going_back(void)
{
	free_while_moving(nvs_chunk_back, true);
}

/* A chunk is in one thread's hand: whatever wants it waits until that one has left it. */
static void wait_for_it(void *(*use)(void *argument))
{
	pthread_t thread;

	atomic_store(&free_thread, 0);
	atomic_store(&freed, 0);
	pthread_create(&thread, NULL, use, NULL);
	wait_until_asleep();
	CHECK(!atomic_load(&freed));
	nvs_chunk_leave(held);
	pthread_join(thread, NULL);
	CHECK(atomic_load(&freed));
	nvs_chunk_enter(held);
}

static void *enter_it(void *unused)
{
	(void)unused;
	atomic_store(&free_thread, gettid());
	nvs_chunk_enter(held);
	atomic_store(&freed, 1);
	nvs_chunk_leave(held);
	return NULL;
}

static void *allow_it(void *unused)
{
	(void)unused;
	atomic_store(&free_thread, gettid());
	OK(nvs_chunks_allow(device, 2));
	atomic_store(&freed, 1);
	return NULL;
}

static void *send_it_out(void *unused)
{
	(void)unused;
	atomic_store(&free_thread, gettid());
	CHECK(nvs_chunk_begin_out(device, UINT64_MAX) == held);
	atomic_store(&freed, 1);
	nvs_chunk_out(held);
	return NULL;
}

static void *bring_it_in(void *unused)
{
	CUresult result;

	(void)unused;
	atomic_store(&free_thread, gettid());
	CHECK(nvs_chunk_begin_in(device, UINT64_MAX, &result) == held);
	atomic_store(&freed, 1);
	nvs_chunk_in(held);
	return NULL;
}

void one_hand(void)
{
	begin();
	close_gate();
	OK(nvs_chunk_create(device, 4 * MIB, NULL, true, &held));
	wait_for_it(enter_it);
	wait_for_it(allow_it);
	CHECK(held->peers == 2);
	wait_for_it(send_it_out);
	CHECK(held->place == NVS_PLACE_NOWHERE);
	wait_for_it(bring_it_in);
	CHECK(held->place == NVS_PLACE_DEVICE);
}

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *data), void *data);

static void run_until(void *over)
{
	while (!atomic_load((_Atomic int *)over))
		usleep(1000);
}

/* A free waits for the work that may use what is freed. */
void free_beside_work(void)
{
	static _Atomic int over;
	CUdeviceptr pointer;
	CUstream stream;
	pthread_t thread;

	begin();
	OK(cuMemAlloc_v2(&pointer, 5 * MIB));
	OK(NVS_CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(stream, run_until, &over));
	pthread_create(&thread, NULL, free_it, &pointer);
	wait_until_asleep();
	CHECK(!atomic_load(&freed) && !atomic_load(&ended));
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	CHECK(atomic_load(&ended) == 1);
}
