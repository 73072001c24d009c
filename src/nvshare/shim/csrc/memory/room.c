/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room for those who allocate. Owns nothing; room_lock.h has the lock, which protects what is
 * used here.
 */
#define _GNU_SOURCE
#include "memory/room.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "gate/device.h"
#include "gate/python.h"
#include "memory/limit.h"
#include "memory/room_lock.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/report.h"
#include "process/thread.h"

#define LACKING_NS 20000000ull /* more with each try */
#define LONGEST_LACKING_NS 500000000ull
#define LACKING_TRIES 35u /* some ten seconds */

/* False: it has been served meanwhile. `unanswered`: unless there is a scheduler that has answered.
 */
static bool step_back(struct nvs_device *device, struct nvs_room_waiter *waiter, bool unanswered)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	struct nvs_room_waiter **link = &room->first;
	bool found;

	while (*link && *link != waiter)
		link = &(*link)->next;
	found = *link == waiter && !(unanswered && room->state.link != NVS_ROOM_LINK_NEW);
	if (found)
		*link = waiter->next;
	nvs_room_unlock(device, room);
	return found;
}

/*
 * It has waited for long. A scheduler that does not answer at all may be stopped: a program that
 * only looks whether there is a device must not hang with it.
 */
static bool gives_up(struct nvs_device *device, struct nvs_room_waiter *waiter, bool *told)
{
	if (waiter->kind == NVS_ROOM_CONTEXT && step_back(device, waiter, true)) {
		waiter->room = NVS_ROOM_IN;
		return true;
	}
	if (!*told)
		device->listener->memory_waits(device);
	*told = true;
	return false;
}

/* A handler of the program's wants it to go on. */
static bool interrupted(struct nvs_device *device, struct nvs_room_waiter *waiter)
{
	if (!nvs_python_interrupts() || !step_back(device, waiter, false))
		return false;
	waiter->room = NVS_ROOM_REFUSED;
	return true;
}

/* Sleeps until the waiter has its answer. */
static void wait_for(struct nvs_device *device, struct nvs_room_waiter *waiter)
{
	bool over = false, told = false;

	while (!over && !atomic_load(&waiter->served)) {
		int error = nvs_futex_sleep(&waiter->served, 0, NVS_MEMORY_PATIENCE_NS);

		if (error == EINTR)
			over = interrupted(device, waiter);
		else if (error == ETIMEDOUT)
			over = gives_up(device, waiter, &told);
	}
}

/* With the lock held, which is given back. The waiter comes behind the others, or before them. */
static enum nvs_room await(struct nvs_device *device, struct nvs_room_record *room,
			   struct nvs_room_waiter *waiter)
{
	struct nvs_room_waiter **place = &room->first;

	while (*place && !waiter->again)
		place = &(*place)->next;
	waiter->next = *place;
	*place = waiter;
	/* It is on this stack until it is served. */
	nvs_cancel_off();
	nvs_room_unlock(device, room);
	wait_for(device, waiter);
	nvs_cancel_on();
	return (enum nvs_room)waiter->room;
}

/* With the lock held, which is given back. */
static void refuse(struct nvs_device *device, struct nvs_room_record *room, uint64_t bytes)
{
	uint64_t used = room->state.footprint_bytes + room->state.fixed_bytes;
	struct nvs_limit limit = nvs_limit_of(device->ordinal);
	bool first = !room->refused;

	room->refused = true;
	nvs_room_unlock_same(room);
	/* Programs that try again with less would fill the screen. */
	if (first)
		nvs_limit_say(device->ordinal, limit.bytes, used + limit.others_bytes, bytes,
			      "the container's memory limit");
}

static enum nvs_room ask(struct nvs_device *device, int kind, uint64_t bytes)
{
	struct nvs_room_waiter waiter = { .kind = kind, .bytes = bytes, .room = NVS_ROOM_WAIT };
	int saved = errno;
	struct nvs_room_record *room;

	if (kind != NVS_ROOM_CONTEXT && !nvs_limit_await(device))
		return NVS_ROOM_REFUSED;
	room = nvs_room_lock(device);
	if (nvs_room_passes_limit(room, kind, bytes)) {
		refuse(device, room, bytes);
		errno = saved;
		return NVS_ROOM_REFUSED;
	}
	if (!room->first)
		waiter.room = nvs_room_state_try(&room->state, kind, bytes);
	if (waiter.room == NVS_ROOM_WAIT) {
		await(device, room, &waiter);
	} else if (waiter.room == NVS_ROOM_REFUSED) {
		nvs_room_unlock_same(room);
	} else {
		nvs_room_state_take(&room->state, kind, bytes, waiter.room);
		nvs_room_unlock(device, room);
	}
	errno = saved;
	return (enum nvs_room)waiter.room;
}

enum nvs_room nvs_room_ask(struct nvs_device *device, uint64_t bytes)
{
	return ask(device, NVS_ROOM_MOVABLE, bytes);
}

void nvs_room_give(struct nvs_device *device, uint64_t bytes, uint64_t resident)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_give(&room->state, bytes, resident);
	nvs_room_unlock(device, room);
}

bool nvs_room_ask_fixed(struct nvs_device *device, uint64_t bytes)
{
	return ask(device, NVS_ROOM_FIXED, bytes) != NVS_ROOM_REFUSED;
}

void nvs_room_give_fixed(struct nvs_device *device, uint64_t bytes)
{
	nvs_report_bytes(device->ordinal, NVS_BYTES_SHARED, -(int64_t)bytes);
	nvs_room_count_fixed(device, -(int64_t)bytes);
}

void nvs_room_count_fixed(struct nvs_device *device, int64_t change)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_count_fixed(&room->state, change);
	nvs_room_unlock(device, room);
}

static void pin(struct nvs_device *device, int64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_pin(&room->state, bytes);
	nvs_room_unlock(device, room);
	nvs_report_bytes(device->ordinal, NVS_BYTES_SHARED, bytes);
}

void nvs_room_pin(struct nvs_device *device, uint64_t bytes)
{
	pin(device, (int64_t)bytes);
}

void nvs_room_unpin(struct nvs_device *device, uint64_t bytes)
{
	pin(device, -(int64_t)bytes);
}

bool nvs_room_for_context(struct nvs_device *device)
{
	return ask(device, NVS_ROOM_CONTEXT, 0) != NVS_ROOM_REFUSED;
}

/* False: a handler of the program's wants it to go on. */
static bool give_time(unsigned int tries)
{
	uint64_t pause = LACKING_NS * (tries + 1);
	struct timespec left = {
		.tv_nsec = (long)(pause < LONGEST_LACKING_NS ? pause : LONGEST_LACKING_NS)
	};
	bool goes_on = true;

	nvs_cancel_off();
	while (nanosleep(&left, &left) && goes_on)
		goes_on = !nvs_python_interrupts();
	nvs_cancel_on();
	return goes_on;
}

/* With the lock held, which is given back: what is given is asked for again. */
static bool ask_again(struct nvs_device *device, struct nvs_room_record *room,
		      struct nvs_room_given *given)
{
	struct nvs_room_waiter waiter = {
		.kind = given->kind, .bytes = given->bytes, .again = true, .room = NVS_ROOM_WAIT
	};

	nvs_room_state_take_back(&room->state, given->kind, given->bytes);
	given->room = await(device, room, &waiter);
	given->tries = 0;
	if (given->room == NVS_ROOM_REFUSED)
		given->bytes = 0;
	return given->room != NVS_ROOM_REFUSED;
}

static void take_back(struct nvs_device *device, struct nvs_room_given *given)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_take_back(&room->state, given->kind, given->bytes);
	nvs_room_unlock(device, room);
	given->room = NVS_ROOM_REFUSED;
	given->bytes = 0;
}

bool nvs_room_lacking(struct nvs_device *device, struct nvs_room_given *given, uint64_t bytes)
{
	int saved = errno;
	struct nvs_room_record *room = nvs_room_lock(device);
	bool goes_on;

	if (nvs_room_state_lost(&room->state)) {
		goes_on = ask_again(device, room, given);
	} else {
		goes_on = nvs_room_state_asked(&room->state) && given->tries < LACKING_TRIES;
		if (goes_on)
			nvs_room_state_lack(&room->state, bytes);
		nvs_room_unlock(device, room);
		goes_on = goes_on && give_time(given->tries++);
		if (!goes_on)
			take_back(device, given);
	}
	errno = saved;
	return goes_on;
}

bool nvs_room_forgo(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool without = nvs_room_state_forgo(&room->state, bytes);

	nvs_room_unlock(device, room);
	return without;
}

uint64_t nvs_room_capacity(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool known = room->state.limited && room->state.capacity_bytes;
	uint64_t capacity = known ? room->state.capacity_bytes : UINT64_MAX;

	nvs_room_unlock_same(room);
	return capacity;
}

uint64_t nvs_room_footprint(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	uint64_t footprint = room->state.footprint_bytes;

	nvs_room_unlock_same(room);
	return footprint;
}

uint64_t nvs_room_fixed(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	uint64_t fixed = room->state.fixed_bytes;

	nvs_room_unlock_same(room);
	return fixed;
}
