/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with the room without waiting: by those who allocate, by the client, which brings it
 * what the scheduler says, and by the mover. Owns nothing; each function takes the room's lock.
 */
#include <stdatomic.h>

#include "gate/device.h"
#include "memory/limit.h"
#include "memory/room.h"
#include "memory/room_record.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/report.h"

/* Those who allocate */

void nvs_room_give(struct nvs_device *device, uint64_t bytes, uint64_t resident)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_give(&room->state, bytes, resident);
	nvs_room_unlock(device, room);
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

void nvs_room_pin(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_pin(&room->state, (int64_t)bytes);
	nvs_room_unlock(device, room);
	nvs_report_bytes(device->ordinal, NVS_BYTES_SHARED, (int64_t)bytes);
}

bool nvs_room_possible(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room;
	uint64_t used;
	bool first;

	if (bytes <= device->total_bytes)
		return true;
	room = nvs_room_lock(device);
	used = room->state.footprint_bytes + room->state.fixed_bytes;
	first = !room->impossible;
	room->impossible = true;
	nvs_room_unlock_same(room);
	/* Programs that try again with less would fill the screen. */
	if (first)
		nvs_limit_say(device->ordinal, device->total_bytes, used, bytes,
			      "more than the device has");
	return false;
}

void nvs_room_commit(struct nvs_device *device, uint64_t given, int64_t charged)
{
	atomic_fetch_add(&device->footprint_bytes, (uint64_t)charged);
	if (charged != (int64_t)given)
		nvs_room_count_fixed(device, charged - (int64_t)given);
	if (charged)
		nvs_device_tell(device, NVS_NEWS_FOOTPRINT);
}

void nvs_room_set_graphs(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	int64_t grown = (int64_t)(bytes - room->graph_bytes);

	room->graph_bytes = bytes;
	nvs_room_unlock_same(room);
	nvs_report_bytes(device->ordinal, NVS_BYTES_GRAPHS, grown);
	nvs_room_commit(device, 0, grown);
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

/* The client */

void nvs_room_link(struct nvs_device *device, enum nvs_room_link link)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool out;

	nvs_room_state_link(&room->state, link);
	out = room->state.resident_bytes < room->state.footprint_bytes;
	nvs_room_unlock(device, room);
	if (link == NVS_ROOM_LINK_UNAWARE && out)
		nvs_log("device %d: this scheduler knows nothing of swapping: what is swapped out "
			"comes back when others leave the device",
			device->ordinal);
}

void nvs_room_lose(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	room->state.lost = true;
	nvs_room_unlock_look(device, room);
}

static void refuse(struct nvs_device *device, const struct nvs_frame *frame, const char *reason)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	struct nvs_room_state *state = &room->state;
	uint64_t most = state->capacity_bytes, asked = room->first ? room->first->bytes : 0;
	uint64_t used = state->footprint_bytes + state->fixed_bytes;
	struct nvs_limit limit = nvs_limit_of(device->ordinal);
	bool first = false, context = room->first && room->first->kind == NVS_ROOM_CONTEXT;
	struct nvs_room_waiter *refused = NULL;

	if (nvs_room_state_refuse(state, frame->request) && room->first) {
		first = !room->refused;
		room->refused = true;
		refused = room->first;
		room->first = refused->next;
	}
	nvs_room_unlock(device, room);
	/* Programs that try again with less would fill the screen. */
	if (first && context)
		nvs_log("no room for a context on device %d: %s", device->ordinal, reason);
	else if (first && asked > nvs_limit_left(&limit, used))
		nvs_limit_say(device->ordinal, limit.bytes, used + limit.others_bytes, asked,
			      reason);
	else if (first)
		nvs_limit_say(device->ordinal, most, used, asked, reason);
	/* Not before: a program may end because of it, and nobody would read why. */
	if (refused)
		nvs_room_answer(&refused, NVS_ROOM_REFUSED);
}

bool nvs_room_heard(struct nvs_device *device, const struct nvs_frame *frame, const char *text)
{
	struct nvs_room_record *room;
	bool right;

	if (frame->type == NVS_REFUSE_GROWTH) {
		refuse(device, frame, text);
		return true;
	}
	room = nvs_room_lock(device);
	right = nvs_room_state_allot(&room->state, frame);
	nvs_room_unlock(device, room);
	return right;
}

bool nvs_room_say(struct nvs_device *device, uint64_t now_us, bool before_request,
		  struct nvs_frame *frame)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool said = nvs_room_state_say(&room->state, now_us, before_request, frame);

	nvs_room_unlock_same(room);
	return said;
}

uint64_t nvs_room_deadline(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	uint64_t deadline = room->deadline = nvs_room_state_deadline(&room->state);

	nvs_room_unlock_same(room);
	return deadline;
}

bool nvs_room_hold(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool ready;

	nvs_room_state_hold(&room->state);
	ready = nvs_room_state_ready(&room->state);
	room->opens = !ready;
	nvs_room_unlock(device, room);
	return ready;
}

bool nvs_room_ready(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool ready = nvs_room_state_ready(&room->state);

	room->opens &= !ready;
	nvs_room_unlock(device, room);
	return ready;
}

void nvs_room_release(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_release(&room->state);
	room->opens = false;
	nvs_room_unlock(device, room);
}

/* The mover */

enum nvs_room_move nvs_room_next(struct nvs_device *device, uint64_t *bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	int move = nvs_room_state_next(&room->state, bytes);

	nvs_room_unlock_same(room);
	return (enum nvs_room_move)move;
}

uint32_t nvs_room_changes(struct nvs_device *device)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	uint32_t changes = atomic_load(&room->changes);

	nvs_room_unlock_same(room);
	return changes;
}

void nvs_room_wait(struct nvs_device *device, uint32_t changes, uint64_t timeout_ns)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_unlock_same(room);
	nvs_futex_sleep(&room->changes, changes, timeout_ns);
}

void nvs_room_changed(struct nvs_device *device)
{
	nvs_room_unlock_look(device, nvs_room_lock(device));
}

bool nvs_room_leave(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool allowed = nvs_room_state_leave(&room->state, bytes);

	nvs_room_unlock_mover(device, room);
	return allowed;
}

void nvs_room_left(struct nvs_device *device, uint64_t bytes, bool gone)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_left(&room->state, bytes, gone);
	if (gone)
		nvs_room_unlock(device, room);
	else
		nvs_room_unlock_mover(device, room);
}

bool nvs_room_enter(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);
	bool allowed = nvs_room_state_enter(&room->state, bytes);

	nvs_room_unlock_mover(device, room);
	return allowed;
}

void nvs_room_entered(struct nvs_device *device, uint64_t bytes, bool in)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_entered(&room->state, bytes, in);
	nvs_room_unlock_mover(device, room);
}

void nvs_room_refused(struct nvs_device *device, uint64_t bytes)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_lack(&room->state, bytes);
	nvs_room_unlock_mover(device, room);
}

void nvs_room_set_arena(struct nvs_device *device, uint64_t arena, uint64_t usable)
{
	struct nvs_room_record *room = nvs_room_lock(device);

	nvs_room_state_set_arena(&room->state, arena, usable);
	nvs_room_unlock_look(device, room);
}
