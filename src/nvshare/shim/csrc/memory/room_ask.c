/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room for those who allocate: asking for more, which may wait, and giving back. Owns nothing:
 * a wait is a record on its thread's stack, which sleeps on a word of its own in one of the room's
 * lines. All waits are here, for room and for what the scheduler says of the container's limit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "gate/device.h"
#include "gate/python.h"
#include "memory/room.h"
#include "memory/room_record.h"
#include "process/clock.h"
#include "process/ends.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/report.h"
#include "process/thread.h"

#define TOLD_WHY_NS 10000000000ull /* who waits for so long is told why */
#define LACKING_NS 20000000ull	   /* more with each try */
#define LONGEST_LACKING_NS 500000000ull
#define LACKING_TRIES 35u /* some ten seconds */
/*
 * How long a free of another process of the container may be on the way: it is told after 10 ms at
 * the latest, by threads that may have to wait for a processor.
 */
#define FREED_NS 100000000ull

/* Waiting */

static struct nvs_room_waiter **line_of(struct nvs_room_record *room,
					const struct nvs_room_waiter *waiter)
{
	return waiter->for_limit ? &room->limited : &room->first;
}

/*
 * With the lock held: whether one that has waited for long goes on without an answer. A scheduler
 * that does not answer at all may be stopped: a program that only looks whether there is a device
 * must not hang with it.
 */
static bool has_waited(const struct nvs_room_record *room, const struct nvs_room_waiter *waiter)
{
	if (waiter->for_limit)
		return waiter->until_ns || room->limit_word == NVS_LIMIT_UNSURE;
	return waiter->kind == NVS_ROOM_CONTEXT && room->state.link == NVS_ROOM_LINK_NEW;
}

/* Out of the line, with this answer. False: it has been served meanwhile, or (`late`) is to wait.
 */
static bool step_back(struct nvs_device *device, struct nvs_room_waiter *waiter, bool late,
		      int answer)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock) = nvs_room_lock(device);
	struct nvs_room_waiter **link = line_of(room, waiter);
	bool found;

	while (*link && *link != waiter)
		link = &(*link)->next;
	found = *link == waiter && (!late || has_waited(room, waiter));
	if (found) {
		*link = waiter->next;
		waiter->room = answer;
	}
	return found;
}

static bool gives_up(struct nvs_device *device, struct nvs_room_waiter *waiter)
{
	waiter->tired =
		step_back(device, waiter, true, waiter->for_limit ? NVS_ROOM_WAIT : NVS_ROOM_IN);
	if (!waiter->tired && !waiter->told)
		nvs_device_tell(device, NVS_NEWS_MEMORY_WAITS);
	waiter->told |= !waiter->tired;
	return waiter->tired;
}

static uint64_t left_ns(const struct nvs_room_waiter *waiter)
{
	uint64_t now = nvs_now_ns();

	if (!waiter->until_ns)
		return TOLD_WHY_NS;
	return waiter->until_ns > now ? waiter->until_ns - now : 0;
}

/* Sleeps until the waiter has its answer, or a handler of the program's wants it to go on. */
static void wait_for(struct nvs_device *device, struct nvs_room_waiter *waiter)
{
	bool over = false;

	while (!over && !atomic_load(&waiter->served)) {
		int error = nvs_futex_sleep(&waiter->served, 0, left_ns(waiter));

		if (error == EINTR)
			over = nvs_python_interrupts() &&
			       step_back(device, waiter, false, NVS_ROOM_REFUSED);
		else if (error == ETIMEDOUT)
			over = gives_up(device, waiter);
	}
}

/* With the lock held, which is given back. The waiter comes behind the others, or before them. */
static enum nvs_room await(struct nvs_room_record *room, struct nvs_room_waiter *waiter)
{
	struct nvs_room_waiter **place = line_of(room, waiter);
	struct nvs_device *device = room->device;

	while (*place && !waiter->again)
		place = &(*place)->next;
	waiter->next = *place;
	*place = waiter;
	atomic_store(&waiter->served, 0);
	/* It is on this stack until it is served. */
	nvs_cancel_off();
	nvs_room_unlock(&room);
	wait_for(device, waiter);
	nvs_cancel_on();
	return (enum nvs_room)waiter->room;
}

/*
 * With the lock held: whether a wish is within the container's memory limit, which has to be known,
 * and what the backend can do. Others of the container may have freed memory of which the scheduler
 * has not told yet: that is waited for, unless there is nobody to tell it.
 */
static enum nvs_room within_limit(const struct nvs_room_record *room,
				  struct nvs_room_waiter *waiter)
{
	struct nvs_limit limit = nvs_room_limit(room);
	uint64_t bytes = waiter->bytes, used = nvs_room_used(room);

	if (waiter->kind == NVS_ROOM_CONTEXT)
		return NVS_ROOM_IN;
	if (room->limit_word == NVS_LIMIT_WITHHELD)
		return NVS_ROOM_REFUSED;
	if (room->limit_word <= NVS_LIMIT_EXPECTED && !waiter->tired)
		return NVS_ROOM_WAIT;
	if (!nvs_room_passes_limit(room, waiter->kind, bytes))
		return used <= waiter->most && bytes <= waiter->most - used ? NVS_ROOM_IN
									    : NVS_ROOM_REFUSED;
	if (nvs_room_state_lost(&room->state) || !limit.others_bytes || used > limit.bytes ||
	    bytes > limit.bytes - used)
		return NVS_ROOM_REFUSED;
	if (!waiter->until_ns)
		waiter->until_ns = nvs_now_ns() + FREED_NS;
	return left_ns(waiter) ? NVS_ROOM_WAIT : NVS_ROOM_REFUSED;
}

/* With the lock held, which is given back: says why within_limit refuses. */
static void say_limit(struct nvs_room_record *room, const struct nvs_room_waiter *waiter)
{
	int ordinal = room->device->ordinal;
	char reason[sizeof(room->withheld)] = "";

	if (room->limit_word == NVS_LIMIT_WITHHELD) {
		memcpy(reason, room->withheld, sizeof(reason));
		room->withheld[0] = '\0';
		nvs_room_unlock_same(&room);
		if (*reason)
			nvs_log("out of memory on device %d: %s", ordinal, reason);
	} else if (nvs_room_passes_limit(room, waiter->kind, waiter->bytes)) {
		nvs_room_say_refused(room, &room->refused, nvs_room_limit(room), waiter->bytes,
				     "the container's memory limit");
	} else {
		nvs_room_say_refused(room, &room->refused,
				     (struct nvs_limit){ .bytes = waiter->most }, waiter->bytes,
				     "");
	}
}

/* With the lock held, which is given back. NVS_ROOM_WAIT: it is to be asked once more. */
static void ask_once(struct nvs_room_record *room, struct nvs_room_waiter *waiter)
{
	struct nvs_room_state *state = &room->state;

	waiter->room = within_limit(room, waiter);
	waiter->for_limit = waiter->room == NVS_ROOM_WAIT;
	if (waiter->room == NVS_ROOM_REFUSED) {
		say_limit(room, waiter);
		return;
	}
	if (!waiter->for_limit) {
		waiter->until_ns = 0;
		waiter->room = nvs_room_state_try(state, waiter->kind, waiter->bytes);
	}
	if (waiter->room == NVS_ROOM_WAIT || room->first) {
		await(room, waiter);
		return;
	}
	if (waiter->room != NVS_ROOM_REFUSED)
		nvs_room_state_take(state, waiter->kind, waiter->bytes, waiter->room);
	nvs_room_unlock(&room);
}

static enum nvs_room ask(struct nvs_device *device, int kind, uint64_t bytes, uint64_t most)
{
	struct nvs_room_waiter waiter = { .kind = kind, .bytes = bytes, .most = most };
	NVS_KEEP_ERRNO;

	do
		ask_once(nvs_room_lock(device), &waiter);
	while (waiter.room == NVS_ROOM_WAIT);
	return (enum nvs_room)waiter.room;
}

enum nvs_room nvs_room_ask(struct nvs_device *device, uint64_t bytes)
{
	return ask(device, NVS_ROOM_MOVABLE, bytes, UINT64_MAX);
}

bool nvs_room_ask_fixed(struct nvs_device *device, uint64_t bytes, uint64_t most)
{
	return ask(device, NVS_ROOM_FIXED, bytes, most) != NVS_ROOM_REFUSED;
}

bool nvs_room_for_context(struct nvs_device *device)
{
	return ask(device, NVS_ROOM_CONTEXT, 0, UINT64_MAX) != NVS_ROOM_REFUSED;
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
static bool ask_again(struct nvs_room_record *room, struct nvs_room_given *given)
{
	struct nvs_room_waiter waiter = {
		.kind = given->kind, .bytes = given->bytes, .again = true, .room = NVS_ROOM_WAIT
	};

	nvs_room_state_take_back(&room->state, given->kind, given->bytes);
	given->room = await(room, &waiter);
	given->tries = 0;
	if (given->room == NVS_ROOM_REFUSED)
		given->bytes = 0;
	return given->room != NVS_ROOM_REFUSED;
}

static void take_back(struct nvs_device *device, struct nvs_room_given *given)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_take_back(&room->state, given->kind, given->bytes);
	nvs_room_unlock(&room);
	given->room = NVS_ROOM_REFUSED;
	given->bytes = 0;
}

bool nvs_room_lacking(struct nvs_device *device, struct nvs_room_given *given, uint64_t bytes)
{
	NVS_KEEP_ERRNO;
	struct nvs_room_record *room = nvs_room_lock(device);
	bool goes_on;

	if (nvs_room_state_lost(&room->state)) {
		goes_on = ask_again(room, given);
	} else {
		goes_on = nvs_room_state_asked(&room->state) && given->tries < LACKING_TRIES;
		if (goes_on)
			nvs_room_state_lack(&room->state, bytes);
		nvs_room_unlock(&room);
		goes_on = goes_on && give_time(given->tries++);
		if (!goes_on)
			take_back(device, given);
	}
	return goes_on;
}

/* What does not wait */

void nvs_room_give(struct nvs_device *device, uint64_t bytes, uint64_t resident)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock) = nvs_room_lock(device);

	nvs_room_state_give(&room->state, bytes, resident);
}

static void count_fixed(struct nvs_device *device, int64_t change)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock) = nvs_room_lock(device);

	nvs_room_state_count_fixed(&room->state, change);
}

void nvs_room_give_fixed(struct nvs_device *device, uint64_t bytes)
{
	nvs_report_bytes(device->ordinal, NVS_BYTES_SHARED, -(int64_t)bytes);
	count_fixed(device, -(int64_t)bytes);
}

void nvs_room_pin(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_pin(&room->state, (int64_t)bytes);
	nvs_room_unlock(&room);
	nvs_report_bytes(device->ordinal, NVS_BYTES_SHARED, (int64_t)bytes);
}

bool nvs_room_possible(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room;

	if (bytes <= device->total_bytes)
		return true;
	room = nvs_room_lock(device);
	nvs_room_say_refused(room, &room->impossible,
			     (struct nvs_limit){ .bytes = device->total_bytes }, bytes,
			     "more than the device has");
	return false;
}

void nvs_room_commit(struct nvs_device *device, uint64_t given, int64_t charged)
{
	atomic_fetch_add(&device->footprint_bytes, (uint64_t)charged);
	if (charged != (int64_t)given)
		count_fixed(device, charged - (int64_t)given);
	if (charged)
		nvs_device_tell(device, NVS_NEWS_FOOTPRINT);
}

void nvs_room_set_graphs(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	int64_t grown = (int64_t)(bytes - room->graph_bytes);

	room->graph_bytes = bytes;
	nvs_room_unlock_same(&room);
	nvs_report_bytes(device->ordinal, NVS_BYTES_GRAPHS, grown);
	nvs_room_commit(device, 0, grown);
}

bool nvs_room_forgo(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock) = nvs_room_lock(device);

	return nvs_room_state_forgo(&room->state, bytes, nvs_device_usable_bytes(device));
}

uint64_t nvs_room_capacity(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);
	bool known = room->state.limited && room->state.capacity_bytes;

	return known ? room->state.capacity_bytes : UINT64_MAX;
}

uint64_t nvs_room_footprint(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);

	return room->state.footprint_bytes;
}
