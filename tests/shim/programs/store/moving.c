/* SPDX-License-Identifier: Apache-2.0 */
/* Frees of what is moving. */
#define _GNU_SOURCE
#include <pthread.h>

#include "store.h"

/* A chunk in the mover's hands: the free returns when it is out of them. */
static _Atomic int freed;
static _Atomic int free_thread;

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
	if (!in && end == nvs_chunk_out)
		count(-(int64_t)chunk->bytes);
	end(chunk);
	pthread_join(thread, NULL);
	CHECK(atomic_load(&ended) == 1 && room.footprint == 0 && room.resident == 0);
	CHECK(nvs_chunks_resident(device) + nvs_chunks_out_bytes(device) == 0);
}

void free_moving_out(void)
{
	free_while_moving(nvs_chunk_out, false);
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
