/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the movers. A mover's record is its thread's; only `running` is written by others, and
 * `spared_bytes` read. It takes no lock but those of the calls that it makes.
 *
 * One direction at a time. The driver's own functions are called, not the hooks: nothing here waits
 * at the gate. Behind a closed door nothing is begun but what its client waits for before it says
 * that it is closed, and who opens it has the mover look. Nothing
 * of the program's runs meanwhile (chunks move only while the gate is closed and drained), and the
 * drain never sees a copy. What fails leaves a chunk as it was: until the contents are on the
 * device the host copy is the truth, until they are in the host copy the device is.
 */
#define _GNU_SOURCE
#include "memory/swap/mover.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/lost.h"
#include "gate/marks.h"
#include "memory/room.h"
#include "memory/swap/arena.h"
#include "memory/swap/chunks.h"
#include "memory/swap/flights.h"
#include "memory/swap/pieces.h"
#include "memory/swap/surplus.h"
#include "process/thread.h"

#define FIRST_PAUSE_NS 1000000u
#define LONGEST_PAUSE_NS 256000000u

struct mover {
	_Atomic bool running;
	_Atomic uint64_t spared_bytes;
	struct nvs_device *device;
	struct nvs_flights flights;
};

static struct mover movers[NVS_MAX_DEVICES];

/* Out */

/* Its contents are on the device alone. */
static void keep(struct mover *mover, struct nvs_chunk *chunk)
{
	uint64_t bytes = chunk->bytes;

	nvs_arena_spare(chunk);
	nvs_chunk_stays(chunk);
	nvs_room_left(mover->device, bytes, false);
}

/* The next chunk that may leave, with host memory for its copy. */
static struct nvs_chunk *find_leaving(struct mover *mover)
{
	struct nvs_device *device = mover->device;
	struct nvs_chunk *chunk = nvs_chunk_begin_out(device, nvs_arena_room(device));

	while (!chunk && nvs_pieces_register(device))
		chunk = nvs_chunk_begin_out(device, nvs_arena_room(device));
	return chunk;
}

static bool begin_out(struct mover *mover)
{
	struct nvs_chunk *chunk = find_leaving(mover);
	bool clean, ready;

	if (!chunk)
		return false;
	/* The lock may have come since the room was asked: then what is here stays. */
	if (!nvs_room_leave(mover->device, chunk->bytes)) {
		nvs_chunk_stays(chunk);
		return false;
	}
	clean = nvs_chunk_is_clean(chunk);
	ready = (clean && !chunk->host_copy) || nvs_chunk_is_managed(chunk) ||
		nvs_arena_hold(chunk);
	if (ready && nvs_flights_leave(&mover->flights, chunk, clean))
		return true;
	keep(mover, chunk);
	return false;
}

static bool finish_out(struct mover *mover)
{
	struct nvs_flight flight = nvs_flights_land(&mover->flights, true);
	struct nvs_chunk *chunk = flight.chunk;
	uint64_t bytes = chunk->bytes, spared = !flight.copied && chunk->host_copy ? bytes : 0;
	CUresult result = flight.failed ? CUDA_SUCCESS : nvs_chunk_out(chunk);

	if (result != CUDA_SUCCESS)
		nvs_flights_say_failed(&mover->flights, result, true);
	if (flight.failed || result != CUDA_SUCCESS) {
		keep(mover, chunk);
		return false;
	}
	atomic_fetch_add(&mover->spared_bytes, spared);
	nvs_room_left(mover->device, bytes, true);
	return true;
}

/*
 * Of a device that is lost: no copies, since nobody will read them, and no context, since it may be
 * dead. What the driver does not give back can't move. False: there was nothing.
 */
static bool abandon(struct mover *mover)
{
	struct nvs_chunk *chunk = nvs_chunk_begin_out(mover->device, UINT64_MAX);
	uint64_t bytes;

	if (!chunk)
		return false;
	bytes = chunk->bytes;
	if (!nvs_room_leave(mover->device, bytes)) {
		nvs_chunk_stays(chunk);
		return false;
	}
	nvs_arena_spare(chunk);
	chunk->host_copy = false;
	if (nvs_chunk_out(chunk) == CUDA_SUCCESS) {
		nvs_room_left(mover->device, bytes, true);
		return true;
	}
	nvs_chunk_stays(chunk);
	nvs_room_left(mover->device, bytes, false);
	return nvs_chunk_pin(chunk);
}

/* In */

static void send_back(struct mover *mover, struct nvs_chunk *chunk)
{
	uint64_t bytes = chunk->bytes;

	nvs_chunk_back(chunk);
	nvs_room_entered(mover->device, bytes, false);
}

/* A chunk of at most so many bytes, for which there is room; NULL: none, or no memory. */
static struct nvs_chunk *find_entering(struct mover *mover, uint64_t bytes)
{
	struct nvs_device *device = mover->device;
	struct nvs_chunk *chunk;
	CUresult result;

	/* Room that is taken and given back looks like a transfer to the scheduler. */
	if (!nvs_chunk_fits(device, bytes) || !nvs_room_enter(device, bytes))
		return NULL;
	chunk = nvs_chunk_begin_in(device, bytes, &result);
	nvs_room_entered(device, chunk ? bytes - chunk->bytes : bytes, false);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		nvs_room_refused(device, bytes);
	else if (result != CUDA_SUCCESS)
		nvs_flights_say_failed(&mover->flights, result, false);
	return chunk;
}

static bool begin_in(struct mover *mover, uint64_t allowed)
{
	struct nvs_chunk *chunk;

	/* Larger ones, the program's own, come last: what the driver refuses is lacking in full. */
	if (allowed > NVS_CHUNK_BYTES && nvs_chunk_fits(mover->device, NVS_CHUNK_BYTES))
		allowed = NVS_CHUNK_BYTES;
	chunk = find_entering(mover, allowed);
	if (!chunk)
		return false;
	if (nvs_flights_enter(&mover->flights, chunk))
		return true;
	send_back(mover, chunk);
	return false;
}

static bool finish_in(struct mover *mover)
{
	struct nvs_flight flight = nvs_flights_land(&mover->flights, false);
	struct nvs_chunk *chunk = flight.chunk;
	uint64_t bytes = chunk->bytes;

	if (flight.failed) {
		send_back(mover, chunk);
		return false;
	}
	nvs_arena_spare(chunk);
	nvs_chunk_in(chunk);
	nvs_room_entered(mover->device, bytes, true);
	return true;
}

/* The thread */

/*
 * Brings chunks out (or in) for as long as the room says so, and then lets those on the way arrive.
 * False: none could be moved.
 */
static bool transfer(struct mover *mover, bool out)
{
	enum nvs_room_move wanted = out ? NVS_ROOM_BRING_OUT : NVS_ROOM_BRING_IN;
	bool moved = false, blocked = false;
	uint64_t bytes;

	for (;;) {
		if (!blocked && nvs_flights_free(&mover->flights) &&
		    nvs_room_next(mover->device, &bytes) == wanted) {
			blocked = !(out ? begin_out(mover) : begin_in(mover, bytes));
			continue;
		}
		if (!mover->flights.count)
			return moved;
		if (out ? finish_out(mover) : finish_in(mover))
			moved = true;
		else
			blocked = true;
	}
}

/* What can be done: where every chunk is larger than what may come in, that is nothing. */
static enum nvs_room_move next_move(const struct mover *mover)
{
	uint64_t bytes;
	enum nvs_room_move move = nvs_room_next(mover->device, &bytes);

	return move == NVS_ROOM_BRING_IN && !nvs_chunk_fits(mover->device, bytes) ? NVS_ROOM_NOTHING
										  : move;
}

static bool idle(const struct mover *mover)
{
	uint64_t wait;

	if (atomic_load(&nvs_door_state) != NVS_DOOR_OPEN)
		return true;
	if (nvs_lost(mover->device) != CUDA_SUCCESS)
		return next_move(mover) != NVS_ROOM_BRING_OUT;
	return next_move(mover) == NVS_ROOM_NOTHING && !nvs_pieces_left(mover->device) &&
	       !nvs_arena_waits(mover->device) && !nvs_room_surplus(mover->device, &wait);
}

/* What the scheduler has not admitted needs no host memory. */
static bool give_back(struct mover *mover)
{
	struct nvs_device *device = mover->device;
	uint64_t wait, surplus = nvs_room_surplus(device, &wait);
	bool gone = false;

	if (!surplus)
		return false;
	if (nvs_copies_begin(&mover->flights.copies, device)) {
		gone = nvs_surplus_give_back(device, surplus);
		nvs_copies_end(&mover->flights.copies);
	}
	if (!gone)
		nvs_room_keep_surplus(device);
	return gone;
}

/*
 * False: there was nothing to do, or it could not be done. A transfer that does not get on must not
 * keep host memory from being registered: others may wait for what leaves into that.
 */
static bool work(struct mover *mover)
{
	enum nvs_room_move move = next_move(mover);
	bool worked;

	if (nvs_lost(mover->device) != CUDA_SUCCESS)
		return move == NVS_ROOM_BRING_OUT && abandon(mover);
	if (nvs_arena_add_late(mover->device))
		return true;
	if (move == NVS_ROOM_NOTHING && !nvs_pieces_left(mover->device))
		return give_back(mover);
	if (!nvs_copies_begin(&mover->flights.copies, mover->device))
		return false;
	worked = (move != NVS_ROOM_NOTHING && transfer(mover, move == NVS_ROOM_BRING_OUT)) ||
		 nvs_pieces_register(mover->device);
	nvs_copies_end(&mover->flights.copies);
	return worked;
}

static bool work_inside(struct mover *mover)
{
	bool worked;

	if (!nvs_door_try())
		return false;
	worked = work(mover);
	nvs_door_leave();
	return worked;
}

/*
 * Its client has closed the door and has not said so: nothing is checkpointed before this is told.
 * Without a context nothing can be taken back.
 */
static bool take_back(struct mover *mover)
{
	struct nvs_device *device = mover->device;

	if (!nvs_pieces_leave(device))
		return false;
	nvs_door_pass();
	if (nvs_copies_begin(&mover->flights.copies, device)) {
		nvs_pieces_unregister(device, 0, UINT32_MAX);
		nvs_copies_end(&mover->flights.copies);
	}
	nvs_door_leave();
	nvs_pieces_have_left(device);
	NVS_EACH_DEVICE(each, UINT64_MAX)
		nvs_device_tell(each, NVS_NEWS_STORE);
	return true;
}

/* False: nothing can be done any more. */
static bool begin(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	/* The kernel would add as much again to each of the short waits. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (!nvs_door_wait())
		return false;
	/* Beside a capture the driver lets only threads in this mode do anything. */
	NVS_CALL(cuThreadExchangeStreamCaptureMode, &mode);
	nvs_door_leave();
	/* The driver may call its own exported functions, which are our hooks. */
	nvs_mark_mine->depth++;
	return true;
}

static void *run(void *argument)
{
	struct mover *mover = argument;
	uint64_t pause = FIRST_PAUSE_NS, wait;

	if (!begin())
		return NULL;
	for (;;) {
		uint32_t changes = nvs_room_changes(mover->device);

		if (take_back(mover) || work_inside(mover)) {
			pause = FIRST_PAUSE_NS;
		} else if (idle(mover)) {
			nvs_room_surplus(mover->device, &wait);
			nvs_room_wait(mover->device, changes, wait);
			pause = FIRST_PAUSE_NS;
		} else {
			nvs_room_wait(mover->device, changes, pause);
			pause = pause < LONGEST_PAUSE_NS ? pause * 2 : pause;
		}
	}
	return NULL;
}

void nvs_mover_start(struct nvs_device *device)
{
	struct mover *mover = &movers[device->ordinal];

	if (atomic_exchange(&mover->running, true))
		return;
	mover->device = mover->flights.device = device;
	if (!nvs_thread_create(run, mover))
		atomic_store(&mover->running, false);
}

uint64_t nvs_mover_spared_bytes(const struct nvs_device *device)
{
	return atomic_load(&movers[device->ordinal].spared_bytes);
}

void nvs_movers_forked(void)
{
	memset(movers, 0, sizeof(movers));
}
