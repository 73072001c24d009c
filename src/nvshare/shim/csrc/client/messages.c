/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts together what a client says, to the scheduler and to the user. No state, no lock.
 */
#define _GNU_SOURCE
#include "client/messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/connection.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "process/clock.h"
#include "process/config.h"
#include "process/log.h"
#include "process/notices.h"

void nvs_frame_begin(struct nvs_frame *frame, uint8_t type)
{
	memset(frame, 0, sizeof(*frame));
	frame->magic = NVS_WIRE_MAGIC;
	frame->version = NVS_WIRE_VERSION;
	frame->type = type;
}

void nvs_message_register(struct nvs_frame *frame, struct nvs_device *device,
			  const struct nvs_lock_state *state, const struct nvs_lock_action *action)
{
	nvs_frame_begin(frame, NVS_REGISTER);
	frame->state = (uint8_t)action->state;
	frame->level = NVS_WIRE_LEVEL;
	frame->pid = (uint32_t)getpid();
	frame->epoch = state->epoch;
	frame->grant = action->grant;
	frame->total_bytes = device->total_bytes;
	memcpy(frame->device_uuid, device->uuid, sizeof(frame->device_uuid));
	snprintf(frame->text, sizeof(frame->text), "%s", program_invocation_short_name);
	if (gethostname(frame->name_hint, sizeof(frame->name_hint) - 1))
		frame->name_hint[0] = '\0';
}

void nvs_message_for(struct nvs_frame *frame, const struct nvs_lock_action *action)
{
	static const uint8_t types[] = {
		[NVS_ACTION_SEND_REQ_LOCK] = NVS_REQ_LOCK,
		[NVS_ACTION_SEND_LOCK_RELEASED] = NVS_LOCK_RELEASED,
		[NVS_ACTION_SEND_DRAIN_REPORT] = NVS_DRAIN_REPORT,
		[NVS_ACTION_SEND_ASK_REASON] = NVS_ASK_REASON,
		[NVS_ACTION_SEND_IDLE] = NVS_IDLE,
	};

	nvs_frame_begin(frame, types[action->kind]);
	frame->grant = action->grant;
	if (action->kind == NVS_ACTION_SEND_DRAIN_REPORT)
		frame->drain = (uint8_t)action->state;
}

bool nvs_message_notice(struct nvs_frame *frame, const struct nvs_lock_state *state,
			uint32_t *known)
{
	uint32_t unknown = nvs_notices_said() & ~*known;
	int notice;

	if (!unknown || state->link != NVS_LINK_UP || state->level < 1)
		return false;
	notice = __builtin_ctz(unknown);
	*known |= 1U << notice;
	nvs_frame_begin(frame, NVS_NOTICE);
	snprintf(frame->text, sizeof(frame->text), "%s", nvs_notice_text(notice));
	return true;
}

void nvs_message_say_lost(const struct nvs_device *device)
{
	const char *name = nvs_final_name(nvs_lost(device));

	if (name)
		nvs_log("device %d: the context is dead: %s; its memory that swaps leaves the GPU, "
			"without its contents, and no turn is asked for: end this process",
			device->ordinal, name);
}

bool nvs_message_lost(struct nvs_frame *frame, const struct nvs_device *device,
		      const struct nvs_lock_state *state, bool *known)
{
	const char *name = nvs_final_name(nvs_lost(device));

	if (!name || *known || state->link != NVS_LINK_UP || state->level < 1)
		return false;
	*known = true;
	nvs_frame_begin(frame, NVS_NOTICE);
	snprintf(frame->text, sizeof(frame->text), "its context is dead: %s; end it", name);
	return true;
}

/*
 * The original's socket is beside the folder of ours, which serves both. Who starts just now may
 * have opened one of them only.
 */
static bool original_answers(const char *path, char original[])
{
	const char *ours = strstr(path, "client/scheduler.sock");

	if (!ours)
		return false;
	memcpy(original, path, (size_t)(ours - path));
	strcpy(original + (ours - path), "scheduler.sock");
	return nvs_connection_answers(original) && !nvs_connection_answers(path);
}

/* Whether something about one place explains why there is no scheduler; then it was said. */
static bool explained(const char *path, const char *consequence)
{
	const char *distrust = *path ? nvs_distrust(path) : NULL;
	char original[NVS_SOCKET_PATH_BYTES];

	if (distrust)
		nvs_log("no scheduler is believed at %s, because %s; %s", path, distrust,
			consequence);
	else if (*path && original_answers(path, original))
		nvs_log("no scheduler at %s; that of the original nvshare, which listens at %s, "
			"can't serve this library: start nvshare-scheduler instead of it; %s",
			path, original, consequence);
	else
		return false;
	return true;
}

/* Where a scheduler is looked for first, for people. What is wrong with a path was said before. */
static const char *first_place(void)
{
	const char *path = nvs_config()->sockets[0];

	return *path ? path : "a path that no socket can have";
}

/* Where a new scheduler of the user's own would listen; empty: there is only the first place. */
static const char *own_place(void)
{
	const struct nvs_config *config = nvs_config();

	return config->socket_count > 1 ? config->sockets[config->socket_count - 1] : "";
}

static void warn_missing(void)
{
	static const char *const what[] = {
		[NVS_ON_MISSING_WAIT] = "waiting for one",
		[NVS_ON_MISSING_RUN] = "running without a lock until there is one",
		[NVS_ON_MISSING_FAIL] = "GPU work fails until there is one",
	};
	const struct nvs_config *config = nvs_config();
	const char *own = own_place();

	for (size_t i = 0; i < config->socket_count; i++)
		if (explained(config->sockets[i], what[config->on_missing]))
			return;
	nvs_log("no scheduler at %s%s%s; %s", first_place(), *own ? " or " : "", own,
		what[config->on_missing]);
}

static void warn_bad_frame(const struct nvs_frame *frame, const char *path)
{
	if (frame->magic != NVS_WIRE_MAGIC)
		nvs_log("what listens at %s is no nvshare scheduler of protocol %d; trying again",
			path, NVS_WIRE_VERSION);
	else if (frame->version != NVS_WIRE_VERSION)
		nvs_log("the scheduler at %s speaks protocol %d, this library %d; trying again",
			path, frame->version, NVS_WIRE_VERSION);
	else
		nvs_log("the scheduler at %s sent a frame of type %d, which it must not now; "
			"connecting again",
			path, frame->type);
}

static void warn_refused(const struct nvs_connection *connection,
			 const struct nvs_lock_state *state)
{
	if (state->sent_away)
		nvs_log("the scheduler at %s refuses this process for good: %s; its calls answer "
			"CUDA_ERROR_NOT_PERMITTED, and its memory that swaps leaves the GPU; let "
			"the pod not set NVIDIA_VISIBLE_DEVICES, nor be privileged",
			connection->path, connection->text);
	else
		nvs_log("the scheduler at %s refuses this process: %s", connection->path,
			connection->text);
}

static void warn_waiting(const struct nvs_device *device, const struct nvs_lock_state *state,
			 const struct nvs_connection *connection)
{
	unsigned long long seconds = (nvs_now_us() - state->waiting_since) / 1000000;
	const char *first = first_place(), *own = own_place();

	/* Whoever waited may have been cancelled, and a scheduler may say that nobody waits. */
	if (!atomic_load(&device->gate.waiting))
		return;
	if (state->lock == NVS_LOCK_DRAINING)
		nvs_log("device %d: threads have waited for %llu s: the lock is to be given back, "
			"and what they submitted has not completed%s",
			device->ordinal, seconds,
			state->report == NVS_DRAIN_STEPPING ? "; one submission at a time passes"
							    : "");
	else if (state->link == NVS_LINK_REGISTERING)
		nvs_log("device %d: threads have waited for %llu s: the scheduler at %s has not "
			"answered",
			device->ordinal, seconds, connection->path);
	else if (state->link != NVS_LINK_UP && state->refused)
		nvs_log("device %d: threads have waited for %llu s: this process is refused by "
			"the scheduler at %s",
			device->ordinal, seconds, connection->path);
	else if (state->link != NVS_LINK_UP)
		nvs_log("device %d: threads have waited for %llu s: there is no scheduler at "
			"%s%s%s",
			device->ordinal, seconds, first, *own ? " or " : "", own);
	else if (connection->input.type != NVS_REASON)
		nvs_log("device %d: threads have waited for %llu s for the lock", device->ordinal,
			seconds);
	else if (connection->text[0])
		nvs_log("device %d: threads have waited for %llu s for the lock: %s",
			device->ordinal, seconds, connection->text);
}

void nvs_message_warn(int action, const struct nvs_device *device,
		      const struct nvs_lock_state *state, const struct nvs_connection *connection)
{
	if (action == NVS_ACTION_WARN_MISSING)
		warn_missing();
	else if (action == NVS_ACTION_WARN_LOST && connection->taken)
		nvs_log("this program closed the connection to the scheduler at %s; going on as it "
			"is and connecting again",
			connection->path);
	else if (action == NVS_ACTION_WARN_LOST)
		nvs_log("lost the scheduler at %s; going on as it is and connecting again",
			connection->path);
	else if (action == NVS_ACTION_WARN_BAD_FRAME)
		warn_bad_frame(&connection->input, connection->path);
	else if (action == NVS_ACTION_WARN_WAITING)
		warn_waiting(device, state, connection);
	else
		warn_refused(connection, state);
}
