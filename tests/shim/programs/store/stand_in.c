/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in place of the client, the room and the mover. */
#include <pthread.h>
#include <stdio.h>

#include "gate/capture.h"
#include "gate/gate.h"
#include "gate/marks.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "store.h"

/* The room: its lock is held around the decision whether the gate may be opened. */
static pthread_mutex_t room_lock = PTHREAD_MUTEX_INITIALIZER;
static bool gate_open = true;

struct room room = { .most = UINT64_MAX, .capacity = UINT64_MAX };
struct nvs_device *device;
CUcontext context;
_Atomic unsigned int ended;

enum nvs_room nvs_room_ask(struct nvs_device *asked, uint64_t bytes)
{
	enum nvs_room answer = NVS_ROOM_REFUSED;

	(void)asked;
	pthread_mutex_lock(&room_lock);
	if (room.footprint + bytes <= room.most) {
		answer = gate_open ? NVS_ROOM_IN : NVS_ROOM_OUT;
		room.footprint += bytes;
		room.resident += gate_open ? bytes : 0;
	}
	pthread_mutex_unlock(&room_lock);
	return answer;
}

void nvs_room_give(struct nvs_device *asked, uint64_t bytes, uint64_t here)
{
	(void)asked;
	pthread_mutex_lock(&room_lock);
	CHECK(room.footprint >= bytes && room.resident >= here);
	room.footprint -= bytes;
	room.resident -= here;
	pthread_mutex_unlock(&room_lock);
}

void count(int64_t here)
{
	pthread_mutex_lock(&room_lock);
	room.resident += (uint64_t)here;
	pthread_mutex_unlock(&room_lock);
}

bool nvs_room_forgo(struct nvs_device *asked, uint64_t bytes)
{
	(void)asked;
	count(-(int64_t)bytes);
	return true;
}

static void count_fixed(struct nvs_device *asked, int64_t change)
{
	(void)asked;
	pthread_mutex_lock(&room_lock);
	room.fixed_bytes += (uint64_t)change;
	pthread_mutex_unlock(&room_lock);
}

bool nvs_room_ask_fixed(struct nvs_device *asked, uint64_t bytes, uint64_t most)
{
	(void)most;
	count_fixed(asked, (int64_t)bytes);
	return true;
}

void nvs_room_give_fixed(struct nvs_device *asked, uint64_t bytes)
{
	count_fixed(asked, -(int64_t)bytes);
}

void nvs_room_commit(struct nvs_device *asked, uint64_t given, int64_t charged)
{
	atomic_fetch_add(&asked->footprint_bytes, (uint64_t)charged);
	count_fixed(asked, charged - (int64_t)given);
}

void nvs_room_set_graphs(struct nvs_device *asked, uint64_t bytes)
{
	(void)asked;
	(void)bytes;
}

bool nvs_room_possible(struct nvs_device *asked, uint64_t bytes)
{
	return bytes <= asked->total_bytes;
}

void nvs_room_pin(struct nvs_device *asked, uint64_t bytes)
{
	nvs_room_give(asked, bytes, bytes);
	count_fixed(asked, (int64_t)bytes);
}

bool nvs_room_lacking(struct nvs_device *asked, struct nvs_room_given *given, uint64_t bytes)
{
	(void)bytes;
	room.lacking++;
	if (given->tries++ < 3)
		return true;
	if (given->kind == NVS_ROOM_MOVABLE)
		nvs_room_give(asked, given->bytes, given->bytes);
	else
		nvs_room_give_fixed(asked, given->bytes);
	given->bytes = 0;
	return false;
}

bool nvs_room_for_context(struct nvs_device *asked)
{
	(void)asked;
	return true;
}

uint64_t nvs_room_capacity(struct nvs_device *asked)
{
	(void)asked;
	return room.capacity;
}

uint64_t nvs_room_footprint(struct nvs_device *asked)
{
	(void)asked;
	return room.footprint;
}

struct nvs_limit nvs_limit_of(int ordinal)
{
	(void)ordinal;
	return (struct nvs_limit){ .bytes = UINT64_MAX };
}

void nvs_room_changed(struct nvs_device *asked)
{
	(void)asked;
}

/* In place of start.c and the client. */
static void nobody_listens(struct nvs_device *asked, enum nvs_news news)
{
	(void)asked;
	(void)news;
}

static void nobody_else(struct nvs_device *asked, char *text, size_t size)
{
	(void)asked;
	snprintf(text, size, "%s", "");
}

static const struct nvs_listener listener = { .hear = nobody_listens, .name_other = nobody_else };

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

static void start(struct nvs_device *started)
{
	device = started;
	device->listener = &listener;
	nvs_chunks_on_end(chunk_ended);
	nvs_marks_prepare(nvs_capture_thread_ended);
	atomic_store(&device->gate.state, NVS_GATE_OPEN);
	pthread_atfork(NULL, NULL, forked);
}

NVS_DEVICE_STARTER(start);

/* In place of the mover: a chunk's `granules` are its copy. */
void close_gate(void)
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

bool send_out(void)
{
	struct nvs_chunk *chunk = nvs_chunk_begin_out(device, UINT64_MAX);
	uint64_t bytes;

	if (!chunk)
		return false;
	bytes = chunk->bytes;
	if (!nvs_chunk_is_clean(chunk)) {
		if (!chunk->granules)
			chunk->granules = malloc(bytes);
		OK(NVS_CALL(cuMemcpyDtoH_v2, chunk->granules, nvs_chunk_address(chunk), bytes));
		chunk->host_copy = true;
	}
	/* It may be freed from then on. */
	nvs_chunk_out(chunk);
	count(-(int64_t)bytes);
	return true;
}

bool bring_in(void)
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

void open_gate(void)
{
	bool opened = false;

	while (!opened) {
		while (bring_in())
			;
		pthread_mutex_lock(&room_lock);
		opened = gate_open = room.resident == room.footprint;
		if (opened)
			nvs_gate_set(device, NVS_GATE_OPEN);
		pthread_mutex_unlock(&room_lock);
	}
}

void begin(void)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	CHECK(nvs_device_use(0) == device);
	CHECK(nvs_memory_swaps(device));
}
