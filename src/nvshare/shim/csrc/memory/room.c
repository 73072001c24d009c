/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rooms: for every device what may be had (room_state.h), what the scheduler has said of
 * the container's limit, and the threads that wait, who are served in the order in which they came.
 * A room's lock protects all that and is held for no more: neither the driver nor the listener is
 * called with it held. Nothing here waits (room_ask.c does) but the mover, for the count of
 * changes.
 */
#include "memory/room.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "gate/device.h"
#include "gate/marks.h"
#include "memory/room_record.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/mutex.h"
#include "process/report.h"
#include "process/terms.h"

static struct nvs_room_record rooms[NVS_MAX_DEVICES] = {
	[0 ... NVS_MAX_DEVICES - 1] = { .lock = NVS_MUTEX(NVS_ORDER_ROOM) }
};

static void wake(_Atomic uint32_t *word, int sleepers)
{
	atomic_fetch_add(word, 1);
	nvs_futex_wake(word, sleepers);
}

struct nvs_room_record *nvs_room_lock(struct nvs_device *device)
{
	struct nvs_room_record *room = &rooms[device->ordinal];

	nvs_mutex_lock(&room->lock);
	room->device = device;
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

static struct nvs_limit limit_of(uint64_t bytes, uint64_t others_bytes)
{
	return (struct nvs_limit){ .bytes = bytes ? bytes : UINT64_MAX,
				   .others_bytes = others_bytes };
}

struct nvs_limit nvs_room_limit(const struct nvs_room_record *room)
{
	return room->limit_word == NVS_LIMIT_SAID ? room->limit
						  : limit_of(nvs_terms()->memory_limit_bytes, 0);
}

struct nvs_limit nvs_limit_of(int ordinal)
{
	if (ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return limit_of(nvs_terms()->memory_limit_bytes, 0);
	NVS_HOLD(&rooms[ordinal].lock);
	return nvs_room_limit(&rooms[ordinal]);
}

bool nvs_room_passes_limit(const struct nvs_room_record *room, int kind, uint64_t bytes)
{
	struct nvs_limit limit = nvs_room_limit(room);

	return kind != NVS_ROOM_CONTEXT && !nvs_room_state_asked(&room->state) &&
	       bytes > nvs_limit_left(&limit, nvs_room_used(room));
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
		    (answer != NVS_ROOM_WAIT &&
		     nvs_room_passes_limit(room, waiter->kind, waiter->bytes))) {
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

void nvs_room_unlock_same(struct nvs_room_record *const *room)
{
	nvs_mutex_unlock(&(*room)->lock);
}

/* Whether there is something to move. */
static bool unlock(struct nvs_room_record *room)
{
	struct nvs_device *device = room->device;
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
	nvs_room_unlock_same(&room);
	if (tell)
		nvs_device_tell(device, NVS_NEWS_ROOM);
	if (tell_footprint)
		nvs_device_tell(device, NVS_NEWS_FOOTPRINT);
	return moves;
}

void nvs_room_unlock_mover(struct nvs_room_record *const *room)
{
	unlock(*room);
}

void nvs_room_unlock(struct nvs_room_record *const *room)
{
	if (unlock(*room))
		wake(&(*room)->changes, INT_MAX);
}

void nvs_room_unlock_look(struct nvs_room_record *const *room)
{
	unlock(*room);
	wake(&(*room)->changes, INT_MAX);
}

static bool unlock_once(struct nvs_room_record *room, bool *said)
{
	bool first = !*said;

	*said = true;
	nvs_room_unlock(&room);
	return first;
}

void nvs_room_say_refused(struct nvs_room_record *room, bool *said, struct nvs_limit limit,
			  uint64_t asked, const char *reason)
{
	struct nvs_device *device = room->device;
	uint64_t used = nvs_room_used(room) + limit.others_bytes;
	char other[128] = "";

	if (!unlock_once(room, said))
		return;
	device->listener->name_other(device, other, sizeof(other));
	nvs_log("out of memory on device %d: limit %llu, used %llu, requested %llu bytes%s%s%s",
		device->ordinal, (unsigned long long)limit.bytes, (unsigned long long)used,
		(unsigned long long)asked, *reason ? ": " : "", reason, other);
}

/* The client */

void nvs_room_link(struct nvs_device *device, enum nvs_room_link link)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool out;

	nvs_room_state_link(&room->state, link);
	out = room->state.resident_bytes < room->state.footprint_bytes;
	nvs_room_unlock(&room);
	if (link == NVS_ROOM_LINK_UNAWARE && out)
		nvs_log("device %d: this scheduler knows nothing of swapping: what is swapped out "
			"comes back when others leave the device",
			device->ordinal);
}

void nvs_room_lose(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_look) = nvs_room_lock(device);

	room->state.lost = true;
}

void nvs_room_refuse(struct nvs_device *device, uint32_t request, const char *reason)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	struct nvs_limit limit = nvs_room_limit(room);
	struct nvs_room_waiter *refused = room->first;

	if (!nvs_room_state_refuse(&room->state, request) || !refused) {
		nvs_room_unlock(&room);
		return;
	}
	room->first = refused->next;
	if (refused->bytes <= nvs_limit_left(&limit, nvs_room_used(room)))
		limit = (struct nvs_limit){ .bytes = room->state.capacity_bytes };
	if (refused->kind != NVS_ROOM_CONTEXT)
		nvs_room_say_refused(room, &room->refused, limit, refused->bytes, reason);
	else if (unlock_once(room, &room->refused))
		nvs_log("no room for a context on device %d: %s", device->ordinal, reason);
	/* Not before: a program may end because of it, and nobody would read why. */
	nvs_room_answer(&refused, NVS_ROOM_REFUSED);
}

/* Gives the lock back; those who wait for the limit look again. */
static void unlock_limit(struct nvs_room_record *const *room)
{
	while ((*room)->limited)
		nvs_room_answer(&(*room)->limited, NVS_ROOM_WAIT);
	nvs_room_unlock_same(room);
}

void nvs_room_expect_limit(struct nvs_device *device, bool expected)
{
	struct nvs_room_record *room NVS_ENDS(unlock_limit) = nvs_room_lock(device);

	if (room->limit_word != NVS_LIMIT_SAID)
		room->limit_word = expected ? NVS_LIMIT_EXPECTED : NVS_LIMIT_UNEXPECTED;
}

void nvs_room_set_limit(struct nvs_device *device, const struct nvs_frame *frame)
{
	struct nvs_room_record *room NVS_ENDS(unlock_limit) = nvs_room_lock(device);

	room->limit_word = NVS_LIMIT_SAID;
	room->limit = limit_of(frame->limit.limit_bytes, frame->limit.others_bytes);
}

void nvs_room_withhold_limit(struct nvs_device *device, const char *reason)
{
	struct nvs_room_record *room NVS_ENDS(unlock_limit) = nvs_room_lock(device);

	if (room->limit_word <= NVS_LIMIT_EXPECTED)
		room->limit_word = NVS_LIMIT_WITHHELD;
	snprintf(room->withheld, sizeof(room->withheld), "%s", reason);
}

bool nvs_room_allot(struct nvs_device *device, const struct nvs_frame *frame)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock) = nvs_room_lock(device);

	return nvs_room_state_allot(&room->state, frame);
}

bool nvs_room_say(struct nvs_device *device, uint64_t now_us, bool before_request,
		  struct nvs_frame *frame)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	uint64_t surplus_at = room->state.surplus_at;
	bool said = nvs_room_state_say(&room->state, now_us, before_request, frame);
	bool has_surplus = !surplus_at && room->state.surplus_at;

	nvs_room_unlock_same(&room);
	if (has_surplus)
		wake(&room->changes, INT_MAX);
	return said;
}

uint64_t nvs_room_deadline(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);

	return room->deadline = nvs_room_state_deadline(&room->state);
}

bool nvs_room_hold(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock) = nvs_room_lock(device);

	nvs_room_state_hold(&room->state);
	room->opens = !nvs_room_state_ready(&room->state);
	return !room->opens;
}

bool nvs_room_ready(struct nvs_device *device)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);
	bool ready = nvs_room_state_ready(&room->state);

	room->opens &= !ready;
	return ready;
}

void nvs_room_release(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_release(&room->state);
	room->opens = false;
	/* What was in the way of host memory that is to go back is not any more. */
	if (room->state.surplus_at)
		nvs_room_unlock_look(&room);
	else
		nvs_room_unlock(&room);
}

/* The mover */

enum nvs_room_move nvs_room_next(struct nvs_device *device, uint64_t *bytes)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_same) = nvs_room_lock(device);

	return (enum nvs_room_move)nvs_room_state_next(&room->state, bytes);
}

uint32_t nvs_room_changes(struct nvs_device *device)
{
	return atomic_load(&rooms[device->ordinal].changes);
}

void nvs_room_wait(struct nvs_device *device, uint32_t changes, uint64_t timeout_ns)
{
	nvs_futex_sleep(&rooms[device->ordinal].changes, changes, timeout_ns);
}

void nvs_room_changed(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_unlock_look(&room);
}

bool nvs_room_leave(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_mover) = nvs_room_lock(device);

	return nvs_room_state_leave(&room->state, bytes);
}

void nvs_room_left(struct nvs_device *device, uint64_t bytes, bool gone)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_left(&room->state, bytes, gone);
	if (gone)
		nvs_room_unlock(&room);
	else
		nvs_room_unlock_mover(&room);
}

bool nvs_room_enter(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_mover) = nvs_room_lock(device);

	return nvs_room_state_enter(&room->state, bytes);
}

void nvs_room_entered(struct nvs_device *device, uint64_t bytes, bool in)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_mover) = nvs_room_lock(device);

	nvs_room_state_entered(&room->state, bytes, in);
}

void nvs_room_refused(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room NVS_ENDS(nvs_room_unlock_mover) = nvs_room_lock(device);

	nvs_room_state_lack(&room->state, bytes);
}

void nvs_rooms_forked(void)
{
	for (struct nvs_room_record *room = rooms; room < rooms + NVS_MAX_DEVICES; room++)
		*room = (struct nvs_room_record){ .lock = NVS_MUTEX(NVS_ORDER_ROOM) };
}
