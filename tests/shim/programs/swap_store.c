/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks and blocks without a scheduler: the library's own files are linked into this program, with
 * this file in place of client and room, and a thread in place of the mover.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/driver.h"
#include "gate/capture.h"
#include "gate/device.h"
#include "gate/gate.h"
#include "gate/marks.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/blocks.h"
#include "memory/swap/chunks.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr pointer);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer);
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr pointer);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr pointer);

#define MIB (1ull << 20)
#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);       \
			_exit(1);                                                     \
		}                                                                     \
	} while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* The room: its lock is held around the decision whether the gate may be opened. */
static pthread_mutex_t room_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t footprint, resident, fixed_bytes, lacking, most = UINT64_MAX, capacity = UINT64_MAX;
static bool gate_open = true;
static struct nvs_device *device;

enum nvs_room nvs_room_ask(struct nvs_device *asked, uint64_t bytes)
{
	enum nvs_room answer = NVS_ROOM_REFUSED;

	(void)asked;
	pthread_mutex_lock(&room_lock);
	if (footprint + bytes <= most) {
		answer = gate_open ? NVS_ROOM_IN : NVS_ROOM_OUT;
		footprint += bytes;
		resident += gate_open ? bytes : 0;
	}
	pthread_mutex_unlock(&room_lock);
	return answer;
}

void nvs_room_give(struct nvs_device *asked, uint64_t bytes, uint64_t here)
{
	(void)asked;
	pthread_mutex_lock(&room_lock);
	CHECK(footprint >= bytes && resident >= here);
	footprint -= bytes;
	resident -= here;
	pthread_mutex_unlock(&room_lock);
}

static void count(int64_t here)
{
	pthread_mutex_lock(&room_lock);
	resident += (uint64_t)here;
	pthread_mutex_unlock(&room_lock);
}

void nvs_room_leave(struct nvs_device *asked, uint64_t bytes)
{
	(void)asked, (void)bytes;
}

void nvs_room_left(struct nvs_device *asked, uint64_t bytes, bool gone)
{
	(void)asked;
	if (gone)
		count(-(int64_t)bytes);
}

bool nvs_room_ask_fixed(struct nvs_device *asked, uint64_t bytes)
{
	nvs_room_count_fixed(asked, (int64_t)bytes);
	return true;
}

void nvs_room_give_fixed(struct nvs_device *asked, uint64_t bytes)
{
	nvs_room_count_fixed(asked, -(int64_t)bytes);
}

void nvs_room_count_fixed(struct nvs_device *asked, int64_t change)
{
	(void)asked;
	pthread_mutex_lock(&room_lock);
	fixed_bytes += (uint64_t)change;
	pthread_mutex_unlock(&room_lock);
}

void nvs_room_pin(struct nvs_device *asked, uint64_t bytes)
{
	nvs_room_give(asked, bytes, bytes);
	nvs_room_count_fixed(asked, (int64_t)bytes);
}

bool nvs_room_lacking(struct nvs_device *asked, uint64_t bytes, unsigned int tries)
{
	(void)asked, (void)bytes;
	lacking++;
	return tries < 3;
}

bool nvs_room_for_context(struct nvs_device *asked)
{
	(void)asked;
	return true;
}

uint64_t nvs_room_capacity(struct nvs_device *asked)
{
	(void)asked;
	return capacity;
}

uint64_t nvs_room_footprint(struct nvs_device *asked)
{
	(void)asked;
	return footprint;
}

void nvs_room_changed(struct nvs_device *asked)
{
	(void)asked;
}

/* In place of start.c and the client. */
static void nobody_listens(struct nvs_device *asked)
{
	(void)asked;
}

static const struct nvs_listener listener = { nobody_listens, nobody_listens, nobody_listens };
static _Atomic unsigned int ended;

static void chunk_ended(struct nvs_chunk *chunk)
{
	free(chunk->granules);
	atomic_fetch_add(&ended, 1);
}

static void forked(void)
{
	nvs_devices_forked();
	nvs_marks_forked();
	nvs_capture_forked();
	nvs_memory_forked();
}

void nvs_device_start(struct nvs_device *started)
{
	device = started;
	device->listener = &listener;
	nvs_chunks_on_end(chunk_ended);
	nvs_marks_prepare(nvs_capture_thread_ended);
	atomic_store(&device->gate.state, NVS_GATE_OPEN);
	pthread_atfork(NULL, NULL, forked);
}

/* In place of the mover: a chunk's `granules` are its copy. */
static void close_gate(void)
{
	pthread_mutex_lock(&room_lock);
	gate_open = false;
	nvs_gate_set(device, NVS_GATE_CLOSED);
	pthread_mutex_unlock(&room_lock);
	nvs_marks_order();
	while (nvs_marks_set(device))
		usleep(100);
	OK(NVS_CALL(cuCtxSynchronize));
}

static bool send_out(void)
{
	struct nvs_chunk *chunk = nvs_chunk_begin_out(device, UINT64_MAX);

	if (!chunk)
		return false;
	if (!nvs_chunk_is_clean(chunk)) {
		if (!chunk->granules)
			chunk->granules = malloc(chunk->bytes);
		OK(NVS_CALL(cuMemcpyDtoH_v2, chunk->granules, nvs_chunk_address(chunk), chunk->bytes));
		chunk->host_copy = true;
	}
	nvs_chunk_out(chunk);
	count(-(int64_t)chunk->bytes);
	return true;
}

static bool bring_in(void)
{
	CUresult result;
	struct nvs_chunk *chunk = nvs_chunk_begin_in(device, UINT64_MAX, &result);
	uint64_t bytes;

	OK(result);
	if (!chunk)
		return false;
	bytes = chunk->bytes;
	if (chunk->host_copy)
		OK(NVS_CALL(cuMemcpyHtoD_v2, nvs_chunk_address(chunk), chunk->granules, bytes));
	count((int64_t)bytes);
	nvs_chunk_in(chunk);
	return true;
}

static void open_gate(void)
{
	bool opened = false;

	while (!opened) {
		while (bring_in())
			;
		pthread_mutex_lock(&room_lock);
		opened = gate_open = resident == footprint;
		if (opened)
			nvs_gate_set(device, NVS_GATE_OPEN);
		pthread_mutex_unlock(&room_lock);
	}
}

static CUcontext context;

static void begin(void)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	CHECK(nvs_device_use(0) == device);
	CHECK(nvs_memory_swaps(device));
}

/* Thousands of allocations and frees of threads, beside a mover that brings all out and in again. */
struct piece {
	CUdeviceptr start;
	uint64_t words;
	uint32_t tag;
};

#define PIECES 10

static _Atomic bool over;
static _Atomic unsigned int steps;

static uint32_t word_at(const struct piece *piece, uint64_t word)
{
	uint32_t value;

	OK(cuMemcpyDtoH_v2(&value, piece->start + word * 4, 4));
	return value;
}

static void verify(const struct piece *piece, uint32_t chance)
{
	CHECK(word_at(piece, 0) == piece->tag);
	CHECK(word_at(piece, chance % piece->words) == piece->tag);
	CHECK(word_at(piece, piece->words - 1) == piece->tag);
}

static void make(struct piece *piece, uint32_t chance)
{
	static const uint64_t most[] = { 1024, 1 << 16, 1 << 20, 3 << 20, 70 << 20 };
	uint64_t bytes = chance % most[chance / 7 % 256 ? chance % 4 : 4] + 4;

	piece->words = bytes / 4;
	piece->tag = chance;
	OK(cuMemAlloc_v2(&piece->start, bytes));
	CHECK(piece->start % 512 == 0);
	OK(cuMemsetD32_v2(piece->start, piece->tag, piece->words));
}

static void *churn(void *number)
{
	struct piece pieces[PIECES] = { { 0 } };
	unsigned int seed = (unsigned int)(uintptr_t)number;

	OK(cuCtxSetCurrent(context));
	while (!atomic_load(&over)) {
		uint32_t chance = (uint32_t)rand_r(&seed);
		struct piece *piece = &pieces[chance % PIECES];

		chance = (uint32_t)rand_r(&seed);
		if (!piece->start) {
			make(piece, chance);
		} else if (chance % 3) {
			verify(piece, chance);
		} else {
			verify(piece, chance);
			OK(cuMemFree_v2(piece->start));
			piece->start = 0;
		}
		atomic_fetch_add(&steps, 1);
	}
	for (int i = 0; i < PIECES; i++)
		if (pieces[i].start) {
			verify(&pieces[i], 0);
			OK(cuMemFree_v2(pieces[i].start));
		}
	return NULL;
}

static void contents(int threads, unsigned int wanted)
{
	pthread_t ids[16];
	uint64_t moved = 0;

	begin();
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, churn, (void *)(uintptr_t)(i + 1));
	while (atomic_load(&steps) < wanted) {
		unsigned int before = atomic_load(&steps);

		close_gate();
		while (send_out())
			moved++;
		open_gate();
		while (atomic_load(&steps) < before + 200)
			usleep(100);
	}
	atomic_store(&over, true);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	/* One empty slab may stay. */
	CHECK(nvs_chunks_resident(device) + nvs_chunks_out_bytes(device) <= 2 * MIB);
	CHECK(footprint == resident && footprint <= 2 * MIB);
	printf("moved %s\n", moved > 20 ? "enough" : "too little");
}

static void eight_threads(void)
{
	contents(8, 4000);
}

static void one_thread(void)
{
	contents(1, 3000);
}

/* All that can be asked, as one text. */
static void ask(CUdeviceptr pointer, char *text)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;
	CUresult result;

	for (int attribute = 1; attribute <= 22; attribute++) {
		unsigned char one[24], many[24];
		CUpointer_attribute name = (CUpointer_attribute)attribute;
		void *place = many;

		memset(one, 0x55, sizeof(one));
		memset(many, 0x55, sizeof(many));
		text += sprintf(text, "%d:%d", attribute, cuPointerGetAttribute(one, name, pointer));
		text += sprintf(text, "/%d ", cuPointerGetAttributes(1, &name, &place, pointer));
		for (int i = 0; i < 16; i++)
			text += sprintf(text, "%02x", one[i]);
		text += sprintf(text, " ");
		for (int i = 0; i < 16; i++)
			text += sprintf(text, "%02x", many[i]);
		text += sprintf(text, "\n");
	}
	result = cuMemGetAddressRange_v2(&base, &bytes, pointer);
	sprintf(text, "range:%d %llx %zu\n", result, base, bytes);
}

static void expect_same(const CUdeviceptr *pointers, char (*texts)[8192], const char *state)
{
	char now[8192];

	for (int i = 0; i < 3; i++) {
		ask(pointers[i], now);
		if (strcmp(now, texts[i])) {
			printf("%s %d:\n%snot\n%s", state, i, now, texts[i]);
			_exit(1);
		}
	}
}

/* Every question, in every state, has the same answer. */
static void queries(void)
{
	static char texts[3][8192];
	CUdeviceptr pointers[3], start, size;
	struct nvs_chunk *chunk;
	CUresult result;
	int zero = 0, one = 1, value;

	begin();
	OK(cuMemAlloc_v2(&pointers[0], 1000));
	OK(cuMemAlloc_v2(&pointers[1], 3 * MIB));
	OK(cuMemAlloc_v2(&pointers[2], 200 * MIB));
	for (int i = 0; i < 3; i++)
		OK(cuMemsetD8_v2(pointers[i], 7, 1000));
	OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointers[0] + 7));
	OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointers[0] + 7));
	CHECK(start == pointers[0] && size == 1000);
	pointers[0] += 7, pointers[1] += 2 * MIB, pointers[2] += 130 * MIB;
	for (int i = 0; i < 3; i++)
		ask(pointers[i], texts[i]);
	close_gate();
	expect_same(pointers, texts, "closed");
	while ((chunk = nvs_chunk_begin_out(device, UINT64_MAX))) {
		expect_same(pointers, texts, "moving");
		chunk->granules = calloc(1, chunk->bytes);
		chunk->host_copy = true;
		nvs_chunk_out(chunk);
		count(-(int64_t)chunk->bytes);
		expect_same(pointers, texts, "some out");
	}
	CHECK(nvs_chunks_resident(device) == 0 && nvs_chunks_out_bytes(device) == 206 * MIB);
	expect_same(pointers, texts, "out");
	OK(cuPointerSetAttribute(&zero, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointers[1]));
	OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointers[1]));
	CHECK(value == 0);
	OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointers[1]));
	chunk = nvs_chunk_begin_in(device, UINT64_MAX, &result);
	expect_same(pointers, texts, "moving in");
	nvs_chunk_back(chunk);
	expect_same(pointers, texts, "back");
	open_gate();
	expect_same(pointers, texts, "in");
	printf("%s", texts[0]);
}

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
	chunk = in ? nvs_chunk_begin_in(device, UINT64_MAX, &result) :
		     nvs_chunk_begin_out(device, UINT64_MAX);
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
	CHECK(atomic_load(&ended) == 1 && footprint == 0 && resident == 0);
	CHECK(nvs_chunks_resident(device) + nvs_chunks_out_bytes(device) == 0);
}

static void free_moving_out(void)
{
	free_while_moving(nvs_chunk_out, false);
}

static void free_staying(void)
{
	free_while_moving(nvs_chunk_stays, false);
}

static void free_moving_in(void)
{
	free_while_moving(nvs_chunk_in, true);
}

static void free_going_back(void)
{
	free_while_moving(nvs_chunk_back, true);
}

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

static void frees(void)
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
	CHECK(footprint == 2 * MIB);
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

static void racing_frees(void)
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
	CHECK(atomic_load(&successes) == 2000 && footprint == 2 * MIB);
}

/* What is allocated while the gate is closed has no device memory until it opens. */
static void closed_gate(void)
{
	CUdeviceptr small, large;
	uint32_t value = 1;

	begin();
	close_gate();
	OK(cuMemAlloc_v2(&small, 100));
	OK(cuMemAlloc_v2(&large, 100 * MIB));
	CHECK(nvs_chunks_resident(device) == 0 && nvs_chunks_out_bytes(device) == 102 * MIB);
	open_gate();
	CHECK(nvs_chunks_resident(device) == 102 * MIB);
	OK(cuMemsetD32_v2(large, 5, 25 * MIB));
	OK(cuMemcpyDtoH_v2(&value, large + 100 * MIB - 4, 4));
	CHECK(value == 5);
	/* The small one's chunk was never written, as far as is known, before this. */
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(large));
}

/* What was never written needs no copy; what was copied and not used since needs none again. */
static void clean(void)
{
	CUdeviceptr pointer;
	struct nvs_chunk *chunk;

	begin();
	OK(cuMemAlloc_v2(&pointer, 8 * MIB));
	close_gate();
	chunk = nvs_chunk_begin_out(device, 0);
	CHECK(chunk && nvs_chunk_is_clean(chunk));
	nvs_chunk_out(chunk);
	count(-(int64_t)chunk->bytes);
	CHECK(chunk->place == NVS_PLACE_NOWHERE && !chunk->handle);
	open_gate();
	OK(cuMemsetD8_v2(pointer, 1, 8 * MIB));
	close_gate();
	CHECK(!nvs_chunk_begin_out(device, 4 * MIB));
	CHECK(send_out() && chunk->place == NVS_PLACE_HOST);
	CHECK(bring_in() && nvs_chunk_is_clean(chunk));
	chunk = nvs_chunk_begin_out(device, 0);
	CHECK(chunk && nvs_chunk_is_clean(chunk));
	/* Its granules went to another one: then it has to be copied. */
	chunk->host_copy = false;
	CHECK(!nvs_chunk_is_clean(chunk));
	nvs_chunk_stays(chunk);
	CHECK(send_out());
	open_gate();
}

/* The scheduler refuses; the driver refuses what the scheduler allowed. */
static void refused(void)
{
	CUdeviceptr hog, pointer = 77;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp_v1 prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	size_t bytes, total;

	begin();
	most = 10 * MIB;
	CHECK(cuMemAlloc_v2(&pointer, 11 * MIB) == CUDA_ERROR_OUT_OF_MEMORY && pointer == 77);
	CHECK(cuMemAlloc_v2(&pointer, UINT64_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(lacking == 0 && footprint == 0);
	most = UINT64_MAX;
	OK(NVS_CALL(cuMemGetInfo_v2, &bytes, &total));
	OK(NVS_CALL(cuMemCreate, &handle, (bytes - 130 * MIB) / (2 * MIB) * (2 * MIB), &prop, 0));
	CHECK(cuMemAlloc_v2(&pointer, 200 * MIB) == CUDA_ERROR_OUT_OF_MEMORY && pointer == 77);
	CHECK(lacking == 4 && footprint == 0 && resident == 0);
	CHECK(nvs_chunks_resident(device) == 0);
	/* While the gate is closed, nobody needs it yet. */
	nvs_gate_set(device, NVS_GATE_CLOSED);
	OK(cuMemAlloc_v2(&hog, 200 * MIB));
	CHECK(lacking == 4 && footprint == 200 * MIB);
	CHECK(resident == nvs_chunks_resident(device) && resident <= 130 * MIB);
	OK(NVS_CALL(cuMemRelease, handle));
	open_gate();
	OK(cuMemsetD8_v2(hog, 1, 200 * MIB));
	OK(cuMemFree_v2(hog));
}

/* Memory ends with its context, also what is out; and the next context at that address has none. */
static void context_end(void)
{
	CUdeviceptr pointer;
	CUcontext second;

	begin();
	for (int out = 0; out < 2; out++) {
		OK(cuCtxCreate_v2(&second, 0, 0));
		for (int i = 0; i < 5; i++) {
			OK(cuMemAlloc_v2(&pointer, 100));
			OK(cuMemAlloc_v2(&pointer, 70 * MIB));
		}
		CHECK(footprint == 352 * MIB);
		if (out) {
			close_gate();
			while (send_out())
				;
		}
		OK(cuCtxDestroy_v2(second));
		CHECK(footprint == 0 && resident == 0);
		CHECK(nvs_chunks_resident(device) + nvs_chunks_out_bytes(device) == 0);
		CHECK(cuMemFree_v2(pointer) == CUDA_ERROR_INVALID_VALUE);
		OK(cuCtxSetCurrent(context));
	}
}

/* A free from another context waits for the memory's own. */
static void other_context(void)
{
	CUdeviceptr pointer;
	CUcontext second, now;

	begin();
	OK(cuMemAlloc_v2(&pointer, 100));
	OK(cuCtxCreate_v2(&second, 0, 0));
	OK(cuMemFree_v2(pointer));
	OK(cuCtxGetCurrent(&now));
	CHECK(now == second);
	OK(cuCtxDestroy_v2(second));
	OK(cuCtxSetCurrent(NULL));
	CHECK(cuMemAlloc_v2(&pointer, 100) == CUDA_ERROR_INVALID_CONTEXT);
}

/* A forked child has nothing of it. */
static void fork_child(void)
{
	CUdeviceptr pointer;
	struct nvs_block block;
	int status;
	pid_t child;

	begin();
	OK(cuMemAlloc_v2(&pointer, 100));
	child = fork();
	if (!child) {
		CHECK(!nvs_block_find(pointer, &block));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(nvs_block_find(pointer, &block));
}

/* Pinned memory stays, and is fixed. */
static void pinned(void)
{
	CUdeviceptr pointer, out;

	begin();
	OK(cuMemAlloc_v2(&pointer, 100 * MIB));
	CHECK(nvs_block_pin(pointer + MIB, 1));
	CHECK(footprint == 36 * MIB && fixed_bytes == 64 * MIB);
	close_gate();
	CHECK(send_out() && !send_out());
	OK(cuMemAlloc_v2(&out, 4 * MIB));
	CHECK(!nvs_block_pin(out, 1));
	open_gate();
	OK(cuMemFree_v2(pointer));
	CHECK(fixed_bytes == 0 && footprint == 4 * MIB);
}

static unsigned long long access_of(CUdeviceptr pointer, int ordinal)
{
	CUmemLocation_v1 location = { CU_MEM_LOCATION_TYPE_DEVICE, ordinal };
	unsigned long long flags = 77;

	OK(NVS_CALL(cuMemGetAccess, &flags, &location, pointer));
	return flags;
}

/* Peers may reach what is there, what is made later, and what comes in again. */
static void peers(void)
{
	CUdeviceptr before, after;

	begin();
	OK(cuMemAlloc_v2(&before, 100 * MIB));
	CHECK(access_of(before, 0) == 3 && access_of(before, 1) == 0);
	OK(nvs_chunks_allow(device, 2));
	OK(cuMemAlloc_v2(&after, 100));
	CHECK(access_of(before, 1) == 3 && access_of(before + 64 * MIB, 1) == 3);
	CHECK(access_of(after, 1) == 3);
	close_gate();
	while (send_out())
		;
	OK(nvs_chunks_allow(device, 0));
	open_gate();
	CHECK(access_of(before, 0) == 3 && access_of(before, 1) == 0 && access_of(after, 1) == 0);
	OK(nvs_chunks_allow(device, 2));
	CHECK(access_of(before, 1) == 3 && access_of(after, 1) == 3);
}

/* What the program is told is free, when the scheduler has said what it may have. */
static void view(void)
{
	CUdeviceptr pointer;
	size_t bytes, total;

	begin();
	capacity = 1000 * MIB;
	OK(cuMemGetInfo_v2(&bytes, &total));
	CHECK(bytes == 1000 * MIB && total == device->total_bytes);
	OK(cuMemAlloc_v2(&pointer, 300 * MIB));
	OK(cuMemGetInfo_v2(&bytes, &total));
	CHECK(bytes == 700 * MIB);
	capacity = 100 * MIB;
	OK(cuMemGetInfo_v2(&bytes, &total));
	CHECK(bytes == 0);
}

/* A hundred thousand allocations, each found by an address inside, and freed in another order. */
static void many(void)
{
	static CUdeviceptr pointers[100000];
	CUdeviceptr base;
	size_t bytes;

	begin();
	for (int i = 0; i < 100000; i++)
		OK(cuMemAlloc_v2(&pointers[i], i % 100 ? 1024 : 2 * MIB));
	for (int i = 0; i < 100000; i++) {
		OK(cuMemGetAddressRange_v2(&base, &bytes, pointers[i] + 1000));
		CHECK(base == pointers[i]);
	}
	for (int i = 0; i < 100000; i++)
		OK(cuMemFree_v2(pointers[(i * 7919ull) % 100000]));
	CHECK(footprint == 2 * MIB);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(one_thread),      CASE(eight_threads),  CASE(queries),	  CASE(free_moving_out),
	CASE(free_staying),    CASE(free_moving_in), CASE(free_going_back), CASE(frees),
	CASE(racing_frees),    CASE(closed_gate),    CASE(clean),	  CASE(refused),
	CASE(context_end),     CASE(other_context),  CASE(fork_child),	  CASE(pinned),
	CASE(peers),	       CASE(view),	     CASE(many),
};

int main(int count, char **arguments)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (count == 2 && !strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			return 0;
		}
	return 2;
}
