/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames about memory. No state beside the record that is passed in, no lock. The mover is started
 * here, when a scheduler that knows of memory that swaps is met.
 */
#include "client/memory_frames.h"

#include <stdatomic.h>

#include "client/messages.h"
#include "gate/device.h"
#include "gate/gate.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/chunks.h"
#include "memory/swap/mover.h"
#include "process/log.h"

#define FOOTPRINT_US 10000 /* the least time between two footprints */

void nvs_memory_registers(struct nvs_memory_frames *memory, struct nvs_frame *frame)
{
	memory->swaps = nvs_memory_swaps(memory->device);
	frame->backend = (uint8_t)nvs_memory_wire_backend(memory->device);
	frame->swaps = memory->swaps;
	frame->footprint_bytes = memory->swaps ? nvs_room_footprint(memory->device)
					       : atomic_load(&memory->device->footprint_bytes);
	memory->footprint_sent = frame->footprint_bytes;
}

static int link_of(const struct nvs_memory_frames *memory, const struct nvs_lock_state *state)
{
	if (state->link == NVS_LINK_UP)
		return memory->swaps && state->level >= NVS_LEVEL_SWAP ? NVS_ROOM_LINK_UP
								       : NVS_ROOM_LINK_UNAWARE;
	/* An attempt changes nothing before it has succeeded or failed. */
	if (state->link != NVS_LINK_DOWN || !state->failures)
		return memory->link;
	/* Who is refused and is not to wait does without, as if there had never been one. */
	return state->missing && state->on_missing != NVS_ON_MISSING_WAIT ? NVS_ROOM_LINK_UNAWARE
									  : NVS_ROOM_LINK_DOWN;
}

/*
 * Before the room knows of the link: who waits there goes on then. Who waits for a limit that a
 * scheduler was to say waits for that of the next one.
 */
static void expect_limit(struct nvs_memory_frames *memory, const struct nvs_lock_state *state,
			 int link)
{
	bool up = state->link == NVS_LINK_UP, was_new = memory->link == NVS_ROOM_LINK_NEW;

	if (up && !memory->up)
		nvs_room_expect_limit(memory->device, state->level >= NVS_LEVEL_LIMIT);
	else if (!up && link != memory->link && (was_new || link == NVS_ROOM_LINK_UNAWARE))
		nvs_room_expect_limit(memory->device, false);
	memory->up = up;
}

void nvs_memory_follow(struct nvs_memory_frames *memory, const struct nvs_lock_state *state)
{
	int link = link_of(memory, state);

	expect_limit(memory, state, link);
	if (link == memory->link)
		return;
	memory->link = link;
	nvs_room_link(memory->device, (enum nvs_room_link)link);
	if (link == NVS_ROOM_LINK_UP)
		nvs_mover_start(memory->device);
}

uint64_t nvs_memory_deadline(const struct nvs_memory_frames *memory,
			     const struct nvs_lock_state *state, bool changed)
{
	if (state->link != NVS_LINK_UP)
		return NVS_LOCK_NEVER;
	if (memory->link == NVS_ROOM_LINK_UP)
		return nvs_room_deadline(memory->device);
	return changed ? memory->footprint_at : NVS_LOCK_NEVER;
}

/* All of it, for a scheduler that wants one number. */
static uint64_t footprint_of(const struct nvs_memory_frames *memory)
{
	uint64_t counted = atomic_load(&memory->device->footprint_bytes);

	return memory->swaps ? counted + nvs_room_footprint(memory->device) : counted;
}

/* A chunk may move between the two looks; no part is more than all of it. */
static bool next_of_room(struct nvs_device *device, uint64_t now, bool all, struct nvs_frame *frame)
{
	uint64_t swapped;

	if (!nvs_room_say(device, now, all, frame))
		return false;
	if (frame->type == NVS_RESIDENT) {
		swapped = nvs_chunks_swapped_bytes(device);
		frame->memory.out_bytes =
			swapped < frame->footprint_bytes ? swapped : frame->footprint_bytes;
		frame->memory.spared_bytes = nvs_mover_spared_bytes(device);
	}
	return true;
}

bool nvs_memory_next_frame(struct nvs_memory_frames *memory, uint64_t now, bool all,
			   struct nvs_frame *frame)
{
	nvs_frame_begin(frame, NVS_FOOTPRINT);
	if (memory->link == NVS_ROOM_LINK_UP)
		return next_of_room(memory->device, now, all, frame);
	frame->footprint_bytes = footprint_of(memory);
	if (frame->footprint_bytes == memory->footprint_sent)
		return false;
	memory->footprint_sent = frame->footprint_bytes;
	memory->footprint_at = now + FOOTPRINT_US;
	return true;
}

bool nvs_memory_allot(struct nvs_memory_frames *memory, const struct nvs_frame *frame)
{
	if (memory->link != NVS_ROOM_LINK_UP || !nvs_room_allot(memory->device, frame))
		return false;
	/* There may have been no thread for it before, and others wait for what is to leave. */
	nvs_mover_start(memory->device);
	return true;
}

void nvs_memory_say_why(const struct nvs_device *device, const char *reason)
{
	nvs_log("device %d: a call that needs memory has waited for 10 s: %s", device->ordinal,
		reason);
}

void nvs_memory_waits(const struct nvs_memory_frames *memory, const struct nvs_lock_state *state,
		      struct nvs_connection *connection)
{
	struct nvs_frame frame;

	if (state->link == NVS_LINK_UP && state->level >= NVS_LEVEL_LIMIT) {
		nvs_frame_begin(&frame, NVS_ASK_REASON);
		frame.request = NVS_REASON_OF_MEMORY;
		nvs_connection_send(connection, &frame);
	} else {
		nvs_memory_say_why(memory->device, state->link == NVS_LINK_UP
							   ? "others use it"
							   : "there is no scheduler");
	}
}

static void set_opens(struct nvs_memory_frames *memory, bool opens)
{
	memory->opens = opens;
	atomic_store(&memory->device->gate.lacks_memory, opens);
}

bool nvs_memory_may_open(struct nvs_memory_frames *memory)
{
	set_opens(memory, memory->swaps && !nvs_room_hold(memory->device));
	/* There may have been no thread for it before. */
	if (memory->opens) {
		nvs_mover_start(memory->device);
		nvs_gates_look_again();
	}
	return !memory->opens;
}

bool nvs_memory_opens_now(struct nvs_memory_frames *memory)
{
	if (!memory->opens || !nvs_room_ready(memory->device))
		return false;
	set_opens(memory, false);
	return true;
}

void nvs_memory_give_up(struct nvs_memory_frames *memory)
{
	set_opens(memory, false);
}

void nvs_memory_lose(struct nvs_memory_frames *memory)
{
	/* There may have been no thread for it before. */
	if (nvs_memory_swaps(memory->device))
		nvs_mover_start(memory->device);
}

void nvs_memory_released(struct nvs_memory_frames *memory)
{
	if (memory->swaps)
		nvs_room_release(memory->device);
}
