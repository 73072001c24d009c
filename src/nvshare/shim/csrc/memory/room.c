/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rooms: for every device what may be had (room_state.h), and the threads that wait for
 * it, who are served in the order in which they came. A room's lock protects both and is held for
 * no more than that: neither the driver nor the listener is called with it held. A thread that
 * waits sleeps on a word of its own, the mover on the room's count of changes.
 */
#define _GNU_SOURCE
#include "memory/room.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <time.h>

#include "gate/device.h"
#include "gate/marks.h"
#include "gate/python.h"
#include "memory/limit.h"
#include "memory/room_record.h"
#include "process/clock.h"
#include "process/futex.h"
#include "process/mutex.h"
#include "process/report.h"
#include "process/thread.h"

#define LACKING_NS 20000000ull /* more with each try */
#define LONGEST_LACKING_NS 500000000ull
#define LACKING_TRIES 35u /* some ten seconds */
/*
 * How long a free of another process of the container may be on the way: it is told after 10 ms at
 * the latest, by threads that may have to wait for a processor.
 */
#define FREED_NS 100000000ull

static struct nvs_room_record rooms[NVS_MAX_DEVICES] = {
	[0 ... NVS_MAX_DEVICES - 1] = { .lock = NVS_MUTEX(NVS_ORDER_ROOM) }
};

static void wake(_Atomic uint32_t *word, int sleepers)
{
	atomic_fetch_add(word, 1);
	nvs_futex_wake(word, sleepers);
}

struct nvs_room_record *nvs_room_lock(const struct nvs_device *device)
{
	struct nvs_room_record *room = &rooms[device->ordinal];

	nvs_mutex_lock(&room->lock);
	return room;
}

void nvs_room_answer(struct nvs_room_waiter **place, int answer)
{
	struct nvs_room_waiter *waiter = *place;

	*place = waiter->next;
	waiter->room = answer;
	/* From here on it may be gone: the address is still good for a wake that nobody hears. */
	wake(&waiter->served, 1);
}

/*
 * With the lock held: whether so much more passes the container's memory limit. A scheduler that is
 * asked sees to that itself, and knows better what others have.
 */
static bool passes_limit(const struct nvs_room_record *room, int kind, uint64_t bytes)
{
	const struct nvs_room_state *state = &room->state;
	struct nvs_limit limit;

	if (kind == NVS_ROOM_CONTEXT || nvs_room_state_asked(state))
		return false;
	limit = nvs_limit_of((int)(room - rooms));
	return bytes > nvs_limit_left(&limit, state->footprint_bytes + state->fixed_bytes);
}

static int answer_to(const struct nvs_room_state *state, const struct nvs_room_waiter *waiter)
{
	return waiter->again ? nvs_room_state_try_again(state, waiter->kind, waiter->bytes)
			     : nvs_room_state_try(state, waiter->kind, waiter->bytes);
}

/*
 * With the lock held: whoever waits and need not any more goes on. Who waits for a scheduler that
 * is lost keeps its place, and nobody behind it waiting.
 */
static void serve(struct nvs_room_record *room)
{
	struct nvs_room_waiter **place = &room->first;
	struct nvs_room_state *state = &room->state;

	while (*place) {
		struct nvs_room_waiter *waiter = *place;
		int answer = answer_to(state, waiter);

		if (answer == NVS_ROOM_REFUSED ||
		    (answer != NVS_ROOM_WAIT && passes_limit(room, waiter->kind, waiter->bytes))) {
			nvs_room_answer(place, NVS_ROOM_REFUSED);
		} else if (answer != NVS_ROOM_WAIT) {
			nvs_room_state_take(state, waiter->kind, waiter->bytes, answer);
			nvs_room_answer(place, answer);
		} else if (waiter->again && nvs_room_state_lost(state)) {
			place = &waiter->next;
		} else {
			nvs_room_state_want(state, waiter->kind, waiter->bytes);
			return;
		}
	}
	nvs_room_state_want_none(state);
}

void nvs_room_unlock_same(struct nvs_room_record *room)
{
	nvs_mutex_unlock(&room->lock);
}

/* Whether there is something to move. */
static bool unlock(struct nvs_device *device, struct nvs_room_record *room)
{
	uint64_t deadline, footprint, bytes;
	bool tell, tell_footprint, moves;

	serve(room);
	footprint = room->state.footprint_bytes;
	tell_footprint =
		room->state.link == NVS_ROOM_LINK_UNAWARE && footprint != room->footprint_told;
	if (tell_footprint)
		room->footprint_told = footprint;
	nvs_report_sums(device->ordinal, footprint, room->state.fixed_bytes);
	nvs_marks_report(device);
	deadline = nvs_room_state_deadline(&room->state);
	tell = deadline < room->deadline || (room->opens && nvs_room_state_ready(&room->state));
	if (tell)
		room->deadline = 0;
	moves = nvs_room_state_next(&room->state, &bytes) != NVS_ROOM_NOTHING;
	nvs_room_unlock_same(room);
	if (tell)
		nvs_device_tell(device, NVS_NEWS_ROOM);
	if (tell_footprint)
		nvs_device_tell(device, NVS_NEWS_FOOTPRINT);
	return moves;
}

void nvs_room_unlock_mover(struct nvs_device *device, struct nvs_room_record *room)
{
	unlock(device, room);
}

void nvs_room_unlock(struct nvs_device *device, struct nvs_room_record *room)
{
	if (unlock(device, room))
		wake(&room->changes, INT_MAX);
}

void nvs_room_unlock_look(struct nvs_device *device, struct nvs_room_record *room)
{
	unlock(device, room);
	wake(&room->changes, INT_MAX);
}

/* Those who wait */

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
		nvs_device_tell(device, NVS_NEWS_MEMORY_WAITS);
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

/*
 * The room's lock, if so much more is within the container's memory limit and what the backend can
 * do; NULL: it is not, and that was logged. Others of the container may have freed memory of which
 * the scheduler has not told yet: that is waited for, unless there is nobody to tell it.
 */
static struct nvs_room_record *lock_within(struct nvs_device *device, int kind, uint64_t bytes,
					   uint64_t most)
{
	uint64_t used, deadline = 0;
	struct nvs_room_record *room;
	struct nvs_limit limit;
	bool passes, soon, first;
	uint32_t news;

	do {
		news = nvs_limit_news();
		room = nvs_room_lock(device);
		limit = nvs_limit_of(device->ordinal);
		used = room->state.footprint_bytes + room->state.fixed_bytes;
		passes = passes_limit(room, kind, bytes);
		if (!passes && used <= most && bytes <= most - used)
			return room;
		soon = passes && !nvs_room_state_lost(&room->state) &&
		       nvs_limit_may_soon(&limit, used, bytes);
		nvs_room_unlock_same(room);
		if (!deadline)
			deadline = nvs_now_ns() + FREED_NS;
	} while (soon && nvs_limit_wait(news, deadline));
	room = nvs_room_lock(device);
	first = !room->refused;
	room->refused = true;
	nvs_room_unlock_same(room);
	/* Programs that try again with less would fill the screen. */
	if (first)
		nvs_limit_say(device->ordinal, passes ? limit.bytes : most,
			      passes ? used + limit.others_bytes : used, bytes,
			      passes ? "the container's memory limit" : "");
	return NULL;
}

static enum nvs_room ask(struct nvs_device *device, int kind, uint64_t bytes, uint64_t most)
{
	struct nvs_room_waiter waiter = { .kind = kind, .bytes = bytes, .room = NVS_ROOM_REFUSED };
	struct nvs_room_record *room = NULL;
	int saved = errno;

	if (kind == NVS_ROOM_CONTEXT || nvs_limit_await(device))
		room = lock_within(device, kind, bytes, most);
	if (room)
		waiter.room =
			room->first ? NVS_ROOM_WAIT : nvs_room_state_try(&room->state, kind, bytes);
	if (room && waiter.room == NVS_ROOM_WAIT) {
		await(device, room, &waiter);
	} else if (room) {
		if (waiter.room != NVS_ROOM_REFUSED)
			nvs_room_state_take(&room->state, kind, bytes, waiter.room);
		nvs_room_unlock(device, room);
	}
	errno = saved;
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

void nvs_rooms_forked(void)
{
	for (struct nvs_room_record *room = rooms; room < rooms + NVS_MAX_DEVICES; room++)
		*room = (struct nvs_room_record){ .lock = NVS_MUTEX(NVS_ORDER_ROOM) };
}
