/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames about sleeping. No state beside the client's record, no lock.
 *
 * The scheduler tells one client of a process to close the door and to open it, and each to store
 * what its own device has, or to let go of what others have as well. Whatever becomes of it
 * meanwhile, what is begun with a file goes on; what is begun with a pack is given up.
 */
#include "client/sleep_frames.h"

#include <stdio.h>

#include "client/messages.h"
#include "client/record.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/gate.h"
#include "memory/swap/arena.h"
#include "memory/away/pack.h"
#include "memory/swap/pieces.h"
#include "memory/away/store.h"
#include "memory/away/store_file.h"
#include "process/log.h"

#define NO_NUMBER "this program has no descriptors left"

static void answer(struct nvs_client *client, uint8_t type, uint32_t request, const char *why,
		   bool final)
{
	struct nvs_frame frame;

	nvs_frame_begin(&frame, type);
	frame.request = request;
	frame.state = final;
	if (why)
		snprintf(frame.text, sizeof(frame.text), "%s", why);
	nvs_connection_send(&client->connection, &frame);
}

static bool knows_sleep(const struct nvs_client *client)
{
	const struct nvs_lock_state *state = &client->state;

	return state->link == NVS_LINK_UP && state->level >= NVS_LEVEL_SLEEP;
}

static void give_up_sharing(struct nvs_device *device)
{
	if (nvs_pack_has(device))
		nvs_store_cancel(device);
	nvs_pack_forget(device);
}

/* What was said, or is owed, is lost with the connection, and so is whoever gave memory. */
void nvs_sleep_follow(struct nvs_client *client)
{
	struct nvs_sleep_frames *sleep = &client->sleep;
	bool wakeable = knows_sleep(client);

	if (wakeable == sleep->wakeable)
		return;
	*sleep = (struct nvs_sleep_frames){ .wakeable = wakeable };
	nvs_door_link(client->device, wakeable);
	if (wakeable)
		return;
	nvs_store_let_go(client->device);
	give_up_sharing(client->device);
}

void nvs_sleep_registers(struct nvs_client *client)
{
	client->sleep.wake_said = 0;
	client->asked_at = nvs_door_openings();
}

bool nvs_sleep_asks_again(const struct nvs_client *client)
{
	return client->state.lock == NVS_LOCK_WAITING && client->state.link == NVS_LINK_UP &&
	       client->asked_at != nvs_door_openings();
}

/* The door */

static bool is_away(void)
{
	NVS_EACH_DEVICE(device, UINT64_MAX)
		if (nvs_store_stage(device) == NVS_STORE_AWAY)
			return true;
	return false;
}

/* Where it was opened meanwhile there is nothing to say to who did not ask. */
static void post_asleep(struct nvs_client *client)
{
	uint32_t request = client->sleep.request;

	if (nvs_pieces_leaving())
		return;
	client->sleep.asleep_owed = false;
	if (nvs_door_closing())
		answer(client, NVS_ASLEEP, request, NULL, false);
	else if (request)
		answer(client, NVS_NOT_ASLEEP, request, "it was woken meanwhile", false);
}

void nvs_sleep_registered(struct nvs_client *client)
{
	if (!knows_sleep(client) || !nvs_door_closing())
		return;
	client->sleep.asleep_owed = true;
	client->sleep.request = 0;
	client->sleep.away_owed = nvs_store_stage(client->device) == NVS_STORE_AWAY;
}

/*
 * The driver is asked to let go only behind the closed door: who is not idle keeps all as it is.
 * Who waits for the lock is outside of the door, and wants to be awake again at once.
 */
void nvs_sleep_hear(struct nvs_client *client, const struct nvs_frame *frame)
{
	bool final = false;
	const char *why = client->state.lock <= NVS_LOCK_WAITING ? nvs_door_close(&final)
								 : "it has the lock of a GPU";

	if (why) {
		answer(client, NVS_NOT_ASLEEP, frame->request, why, final);
		return;
	}
	client->sleep.asleep_owed = true;
	client->sleep.request = frame->request;
	client->sleep.opens = false;
	nvs_pieces_take_back();
	post_asleep(client);
}

/* Who waits for its turn is outside of the door, and nobody gives it one any more. */
static void lose_process(void)
{
	nvs_door_open(true);
	NVS_EACH_DEVICE(device, UINT64_MAX)
		nvs_gate_wake(device);
}

/*
 * Who heard ASLEEP from us before it knew of the store may have it woken: then it opens as soon as
 * memory has all.
 */
bool nvs_sleep_hear_awake(struct nvs_client *client, bool lost)
{
	if (lost) {
		if (atomic_load(&nvs_door_state) != NVS_DOOR_LOST)
			nvs_log("device %d: the driver could not wake this process: all its calls "
				"fail from now on (error %d)",
				client->device->ordinal, (int)CUDA_ERROR_OPERATING_SYSTEM);
		lose_process();
		return true;
	}
	if (client->sleep.owed || is_away())
		return false;
	client->sleep.opens = nvs_stores_hold();
	if (client->sleep.opens)
		NVS_EACH_DEVICE(device, UINT64_MAX)
			nvs_store_cancel(device);
	else
		nvs_door_open(false);
	return true;
}

/* The store */

static void post_lost(struct nvs_client *client, const char *why)
{
	nvs_log("device %d: what host memory had could not be read back from its file: %s; all "
		"calls of this process fail from now on (error %d)",
		client->device->ordinal, why, (int)CUDA_ERROR_OPERATING_SYSTEM);
	lose_process();
}

static void post_not_stored(struct nvs_client *client, const char *why)
{
	char text[NVS_WIRE_TEXT_BYTES];

	snprintf(text, sizeof(text), "its host memory (%llu MiB) can't be written: %s",
		 (unsigned long long)(nvs_arena_bytes(client->device) >> 20), why);
	answer(client, NVS_NOT_STORED, 0, text, false);
}

/* One of SUMMED, PACKED and DEDUPED, where memory has all as before. */
static void post_step(struct nvs_client *client, uint8_t type, const char *why)
{
	struct nvs_frame frame;

	nvs_frame_begin(&frame, type);
	snprintf(frame.sharing.text, sizeof(frame.sharing.text), "%s", why);
	if (type == NVS_SUMMED && !*why)
		frame.sharing.count = nvs_pack_count(client->device);
	nvs_connection_send(&client->connection, &frame);
}

static void post_kept(struct nvs_client *client, uint8_t type, const char *why)
{
	if (type == NVS_STORED)
		post_not_stored(client, why);
	else
		post_step(client, type, why);
}

static void post_away(struct nvs_client *client)
{
	struct nvs_frame frame;

	client->sleep.away_owed = false;
	nvs_frame_begin(&frame, NVS_STORED);
	if (nvs_pack_tells(client->device, &frame.sharing))
		frame.type = NVS_DEDUPED;
	nvs_connection_send(&client->connection, &frame);
}

/* Where nobody asked on this connection, only what is away is said. */
static void post_store(struct nvs_client *client)
{
	char why[NVS_WIRE_TEXT_BYTES];
	enum nvs_store_end end = nvs_store_ended(client->device, why, sizeof(why));
	uint8_t owed = client->sleep.owed;

	if (end == NVS_STORE_NO_END)
		return;
	client->sleep.owed = 0;
	if (end == NVS_STORE_LOST)
		post_lost(client, why);
	if (end == NVS_STORE_GONE)
		client->sleep.away_owed = knows_sleep(client);
	else if (end == NVS_STORE_KEPT && owed)
		post_kept(client, owed, why);
	else if (owed)
		answer(client, NVS_LOADED, 0, NULL, end == NVS_STORE_LOST);
}

/* Whoever is asked for something with its host memory is asleep, and has answered all before. */
static bool may_begin(const struct nvs_client *client)
{
	return nvs_door_closing() && !client->sleep.asleep_owed && !client->sleep.owed;
}

/* What another connection asked for answers it as well. */
static bool hear_store_again(struct nvs_client *client, enum nvs_store_stage stage)
{
	if (nvs_pack_has(client->device))
		post_not_stored(client, "blocks of it are kept with those of others");
	else if (stage == NVS_STORE_AWAY)
		return false;
	else if (stage == NVS_STORE_READING)
		post_not_stored(client, "it is just being read back from another file");
	else
		client->sleep.owed = NVS_STORED;
	return true;
}

bool nvs_sleep_hear_store(struct nvs_client *client)
{
	enum nvs_store_stage stage = nvs_store_stage(client->device);
	const char *why;

	if (!may_begin(client))
		return false;
	if (stage != NVS_STORE_MEMORY)
		return hear_store_again(client, stage);
	if (!nvs_connection_has_spare(&client->connection))
		why = NO_NUMBER;
	else if (!nvs_store_file(client->device, &client->connection.descriptor, &why))
		return false;
	if (why)
		post_not_stored(client, why);
	else
		client->sleep.owed = NVS_STORED;
	return true;
}

static bool hear_step(struct nvs_client *client, uint8_t type,
		      bool (*begin)(struct nvs_device *device, struct nvs_file *file,
				    const char **why))
{
	const char *why;

	if (!may_begin(client))
		return false;
	if (nvs_store_stage(client->device) != NVS_STORE_MEMORY)
		why = "its host memory is away, or not back yet";
	else if (nvs_door_wanted())
		why = "it is to wake";
	else if (!nvs_connection_has_spare(&client->connection))
		why = NO_NUMBER;
	else if (!begin(client->device, &client->connection.descriptor, &why))
		return false;
	if (why)
		post_step(client, type, why);
	else
		client->sleep.owed = type;
	return true;
}

bool nvs_sleep_hear_step(struct nvs_client *client, uint8_t type)
{
	switch (type) {
	case NVS_SUM:
		return hear_step(client, NVS_SUMMED, nvs_pack_sum);
	case NVS_PACK:
		return hear_step(client, NVS_PACKED, nvs_pack_write);
	default:
		return hear_step(client, NVS_DEDUPED, nvs_pack_dedup);
	}
}

bool nvs_sleep_hear_memory(struct nvs_client *client, const struct nvs_frame *frame)
{
	struct nvs_device *device = client->device;

	if (nvs_store_stage(device) != NVS_STORE_AWAY ||
	    !nvs_store_give(device, nvs_file_number(&client->connection.descriptor),
			    frame->memory.segment_bytes))
		return false;
	if (nvs_store_stage(device) == NVS_STORE_READING)
		client->sleep.owed = NVS_LOADED;
	return true;
}

/* What there is to say */

static void post_wake(struct nvs_client *client)
{
	const struct nvs_lock_state *state = &client->state;
	uint32_t closing = nvs_door_closing();

	if (!closing || closing == client->sleep.wake_said || !nvs_door_wanted())
		return;
	if (knows_sleep(client))
		answer(client, NVS_WAKE, 0, NULL, false);
	else if (state->link == NVS_LINK_UP)
		nvs_log("device %d: this process sleeps, and the scheduler is too old to wake it: "
			"calls wait for a newer one",
			client->device->ordinal);
	else if (state->link == NVS_LINK_DOWN && state->failures)
		nvs_log("device %d: this process sleeps, and there is no scheduler to wake it: "
			"calls wait for one",
			client->device->ordinal);
	else
		return; /* an attempt has neither failed nor succeeded */
	client->sleep.wake_said = closing;
}

void nvs_sleep_post(struct nvs_client *client)
{
	post_store(client);
	if (!nvs_door_closing() || nvs_door_wanted())
		give_up_sharing(client->device);
	if (client->sleep.away_owed)
		post_away(client);
	/* Who hears that it is asleep may wake it, and has to know first where its memory is. */
	if (client->sleep.asleep_owed)
		post_asleep(client);
	if (client->sleep.opens && !nvs_stores_hold()) {
		client->sleep.opens = false;
		nvs_door_open(false);
	}
	/* Not before whoever is to wake it knows that it is asleep. */
	if (!client->sleep.asleep_owed)
		post_wake(client);
}
