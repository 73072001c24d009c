/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pure: what a frame from the scheduler means to the lock's state, and what states and events are
 * called in the log. Owns nothing.
 */
#include "client/lock_words.h"

struct nvs_lock_event nvs_lock_event_of(const struct nvs_frame *frame)
{
	static const int kinds[] = {
		[NVS_SCHED_ON] = NVS_EVENT_SCHED_ON,   [NVS_LOCK_OK] = NVS_EVENT_LOCK_OK,
		[NVS_DROP_LOCK] = NVS_EVENT_DROP_LOCK, [NVS_WAITERS] = NVS_EVENT_WAITERS,
		[NVS_REFUSED] = NVS_EVENT_REFUSED,     [NVS_REASON] = NVS_EVENT_REASON,
		[NVS_GANG] = NVS_EVENT_GANG,
	};
	struct nvs_lock_event event = {
		.kind = NVS_EVENT_BAD_FRAME,
		.waiters = frame->waiters,
		.idle_microseconds = frame->idle_microseconds,
		.level = frame->level,
		.epoch = frame->epoch,
		.grant = frame->grant,
		.slots = frame->gang.slots,
		.final = frame->type == NVS_REFUSED && frame->state,
	};

	if (frame->magic != NVS_WIRE_MAGIC || frame->version != NVS_WIRE_VERSION)
		return event;
	if (frame->type < sizeof(kinds) / sizeof(kinds[0]) && kinds[frame->type])
		event.kind = kinds[frame->type];
	return event;
}

const char *nvs_link_name(int link)
{
	static const char *const names[] = { "down", "connecting", "registering", "up" };

	return names[link];
}

const char *nvs_lock_name(int lock)
{
	static const char *const names[] = { "idle", "waiting", "holding", "draining" };

	return names[lock];
}

const char *nvs_lock_event_name(int kind)
{
	static const char *const names[NVS_EVENT_KINDS] = {
		"wanted",  "connected", "connect-failed", "disconnected", "bad-frame", "SCHED_ON",
		"LOCK_OK", "DROP_LOCK", "WAITERS",	  "REFUSED",	  "drained",   "stepping",
		"put-off", "looked",	"timer",	  "REASON",	  "GANG",      "lost",
	};

	return names[kind];
}
