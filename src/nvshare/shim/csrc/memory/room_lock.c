/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rooms: for every device what may be had (room_state.h), and the threads that wait for
 * it, who are served in the order in which they came. A room's lock protects both and is held for
 * no more than that: neither the driver nor the listener is called with it held. A thread that
 * waits sleeps on a word of its own, the mover on the room's count of changes.
 */
#include "memory/room_lock.h"

#include <limits.h>
#include <string.h>

#include "gate/device.h"
#include "gate/marks.h"
#include "memory/limit.h"
#include "process/futex.h"
#include "process/report.h"
#include "process/thread.h"

static struct nvs_room_record rooms[NVS_MAX_DEVICES] = {
	[0 ... NVS_MAX_DEVICES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER }
};

static void wake(_Atomic uint32_t *word, int sleepers)
{
	atomic_fetch_add(word, 1);
	nvs_futex_wake(word, sleepers);
}

struct nvs_room_record *nvs_room_lock(const struct nvs_device *device)
{
	struct nvs_room_record *room = &rooms[device->ordinal];

	/* Cancelled with it, a thread would end with the lock held. */
	nvs_cancel_off();
	pthread_mutex_lock(&room->lock);
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

bool nvs_room_passes_limit(const struct nvs_room_record *room, int kind, uint64_t bytes)
{
	const struct nvs_room_state *state = &room->state;
	struct nvs_limit limit;

	if (kind == NVS_ROOM_CONTEXT || nvs_room_state_asked(state))
		return false;
	limit = nvs_limit_of((int)(room - rooms));
	return bytes > nvs_limit_left(&limit, state->footprint_bytes + state->fixed_bytes);
}

static int
try
	(const struct nvs_room_state *state, const struct nvs_room_waiter *waiter)
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
		int answer =
		try
			(state, waiter);

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

void nvs_room_unlock_same(struct nvs_room_record *room)
{
	pthread_mutex_unlock(&room->lock);
	nvs_cancel_on();
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
		device->listener->room_changed(device);
	if (tell_footprint)
		device->listener->footprint_changed(device);
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

void nvs_rooms_forked(void)
{
	for (struct nvs_room_record *room = rooms; room < rooms + NVS_MAX_DEVICES; room++) {
		memset(room, 0, sizeof(*room));
		room->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	}
}
