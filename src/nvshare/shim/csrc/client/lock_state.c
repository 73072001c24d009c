/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock's state, pure: see lock_state.h. All transitions are in the table `rules`; what is not
 * in it is illegal.
 *
 *	lock:  IDLE -wanted-> WAITING -LOCK_OK-> HOLDING -DROP_LOCK or idle-> DRAINING
 *	       DRAINING -drained-> IDLE or WAITING; without a link HOLDING again, because the
 *	       lock could not be given back; put off: HOLDING until it is tried again
 *	link:  DOWN -timer-> CONNECTING -connected-> REGISTERING -SCHED_ON-> UP; any loss: DOWN
 *
 * The two move independently: whatever happens to the link, a holder holds, a waiter waits and who
 * drains goes on with that, and REGISTER tells the next scheduler so. The exception is a scheduler
 * that is missing from the start, or refuses: then on_missing decides.
 */
#include "client/lock_state.h"

#include <string.h>

#include "client/lock_rules.h"

#define LEAST_IDLE_US 1000u
#define FIRST_PUT_OFF_US 1000000u
#define LAST_PUT_OFF_US 30000000u

static bool watching(const struct nvs_lock_state *state)
{
	return state->lock == NVS_LOCK_HOLDING && state->link == NVS_LINK_UP && state->gives_way;
}

static NVS_LOCK_RULE(ignore)
{
	return true;
}

static NVS_LOCK_RULE(on_wanted)
{
	if (state->failing || state->lost)
		return true;
	state->lock = NVS_LOCK_WAITING;
	nvs_lock_wait_begins(state, now);
	/* REGISTER has said that it is idle: the answer decides, and whoever is lost meanwhile. */
	if (state->link == NVS_LINK_REGISTERING)
		return true;
	if (state->link == NVS_LINK_UP)
		nvs_lock_act(out, NVS_ACTION_SEND_REQ_LOCK);
	else
		nvs_lock_do_without(state, out);
	return true;
}

/* While the drain goes on, DRAINED says who waits. */
static NVS_LOCK_RULE(on_wanted_draining)
{
	state->wanted_again = state->drained;
	nvs_lock_wait_begins(state, now);
	return true;
}

static NVS_LOCK_RULE(on_lock_ok)
{
	nvs_lock_hold(state, event->grant, out);
	return true;
}

/* A scheduler that has just registered a holder may give its grant a number of its own, once. */
static NVS_LOCK_RULE(on_grant_numbered)
{
	if (state->numbered)
		return false;
	state->grant = event->grant;
	state->numbered = true;
	return true;
}

static NVS_LOCK_RULE(on_drop_lock)
{
	if (state->numbered && event->grant != state->grant)
		return true;
	state->grant = event->grant;
	state->numbered = true;
	nvs_lock_drain(state, out);
	return true;
}

/* Asked for while it is given back already, by a scheduler that may have a number of its own. */
static NVS_LOCK_RULE(on_drop_lock_draining)
{
	on_grant_numbered(state, event, now, out);
	return true;
}

static NVS_LOCK_RULE(on_waiters)
{
	bool watched = watching(state);

	state->waiters = event->waiters;
	state->idle_microseconds =
		event->idle_microseconds < LEAST_IDLE_US ? LEAST_IDLE_US : event->idle_microseconds;
	/* Though nobody waits: so that its process can sleep. */
	state->gives_way = event->waiters > 0 || event->idle_microseconds > 0;
	if (watching(state) && !watched) {
		state->completed = false;
		state->look_at = now;
	} else if (watching(state) && !state->looking &&
		   state->look_at > now + state->idle_microseconds) {
		state->look_at = now + state->idle_microseconds;
	}
	return true;
}

static NVS_LOCK_RULE(on_drained)
{
	state->drained = true;
	state->wanted_again = event->waiting;
	if (state->link == NVS_LINK_UP)
		nvs_lock_release(state, event->waiting, now, out);
	else if (state->link != NVS_LINK_REGISTERING)
		nvs_lock_hold(state, state->grant, out);
	return true;
}

static NVS_LOCK_RULE(on_stepping)
{
	nvs_lock_report(state, NVS_DRAIN_STEPPING, out);
	return true;
}

/*
 * The scheduler that asked for the lock still waits for it. One that was not there to hear of it
 * asks again.
 */
static NVS_LOCK_RULE(on_put_off)
{
	uint64_t delay = LAST_PUT_OFF_US;

	if (state->put_off < 5)
		delay = (uint64_t)FIRST_PUT_OFF_US << state->put_off++;
	state->lock = NVS_LOCK_HOLDING;
	nvs_lock_wait_ends(state);
	if (state->link >= NVS_LINK_REGISTERING || state->lost)
		state->drain_at = now + delay;
	state->completed = false;
	state->look_at = now + state->idle_microseconds;
	nvs_lock_act(out, NVS_ACTION_OPEN_GATE);
	nvs_lock_report(state, NVS_DRAIN_PUT_OFF, out);
	return true;
}

/*
 * Idle: everything had completed at the last look, and nothing came since. Of a gang another member
 * may still need what this one submits next, so the scheduler is told, and asks all when all are.
 */
static NVS_LOCK_RULE(on_looked)
{
	bool idle = state->completed && event->submissions == state->submissions;

	state->looking = false;
	if (!watching(state))
		return true;
	if (idle && !state->in_gang) {
		nvs_lock_drain(state, out);
		return true;
	}
	if (idle)
		nvs_lock_act(out, NVS_ACTION_SEND_IDLE);
	state->completed = event->completed;
	state->submissions = event->submissions;
	state->look_at = now + state->idle_microseconds;
	return true;
}

static NVS_LOCK_RULE(on_gang)
{
	state->in_gang = event->slots > 0;
	if (state->lost && state->lock == NVS_LOCK_HOLDING && !state->in_gang)
		nvs_lock_drain(state, out);
	return true;
}

static NVS_LOCK_RULE(on_lost)
{
	bool waited = state->lock == NVS_LOCK_WAITING;

	if (state->lost)
		return true;
	nvs_lock_lose(state, out);
	if (waited && state->link >= NVS_LINK_REGISTERING)
		nvs_lock_reconnect(state, now, out);
	return true;
}

/* A scheduler that did not hear of the sleep hears this one twice. */
static NVS_LOCK_RULE(on_woke)
{
	nvs_lock_act(out, NVS_ACTION_SEND_REQ_LOCK);
	return true;
}

static uint64_t drain_deadline(const struct nvs_lock_state *state)
{
	return state->lock == NVS_LOCK_HOLDING ? state->drain_at : NVS_LOCK_NEVER;
}

static uint64_t look_deadline(const struct nvs_lock_state *state)
{
	return watching(state) && !state->looking ? state->look_at : NVS_LOCK_NEVER;
}

/* Who waits for another client's turn is told by the scheduler why; all else is known here. */
static void tell(struct nvs_lock_state *state, struct nvs_lock_actions *out)
{
	state->tell_at = NVS_LOCK_NEVER;
	state->asked =
		state->lock == NVS_LOCK_WAITING && state->link == NVS_LINK_UP && state->level >= 1;
	nvs_lock_act(out, state->asked ? NVS_ACTION_SEND_ASK_REASON : NVS_ACTION_WARN_WAITING);
}

/* One thing at a time; what else is due comes with the next TIMER. */
static NVS_LOCK_RULE(on_timer)
{
	if (state->link == NVS_LINK_DOWN && now >= state->retry_at) {
		state->link = NVS_LINK_CONNECTING;
		nvs_lock_act(out, NVS_ACTION_CONNECT);
	} else if (now >= drain_deadline(state)) {
		nvs_lock_drain(state, out);
	} else if (now >= look_deadline(state)) {
		state->looking = true;
		nvs_lock_act(out, NVS_ACTION_LOOK);
	} else if (now >= state->tell_at) {
		tell(state, out);
	}
	return true;
}

/* An answer that crossed with LOCK_OK says nothing any more. */
static NVS_LOCK_RULE(on_reason)
{
	if (state->asked)
		nvs_lock_act(out, NVS_ACTION_WARN_WAITING);
	state->asked = false;
	return true;
}

#define DOWN (1 << NVS_LINK_DOWN)
#define CONNECTING (1 << NVS_LINK_CONNECTING)
#define REGISTERING (1 << NVS_LINK_REGISTERING)
#define UP (1 << NVS_LINK_UP)
#define ANY_LINK (DOWN | CONNECTING | REGISTERING | UP)
#define IDLE (1 << NVS_LOCK_IDLE)
#define WAITING (1 << NVS_LOCK_WAITING)
#define HOLDING (1 << NVS_LOCK_HOLDING)
#define DRAINING (1 << NVS_LOCK_DRAINING)
#define ANY_LOCK (IDLE | WAITING | HOLDING | DRAINING)

static const struct {
	int event, links, locks;
	bool (*handler)(struct nvs_lock_state *state, const struct nvs_lock_event *event,
			uint64_t now, struct nvs_lock_actions *out);
} rules[] = {
	{ NVS_EVENT_WANTED, ANY_LINK, IDLE, on_wanted },
	{ NVS_EVENT_WANTED, ANY_LINK, WAITING | HOLDING, ignore },
	{ NVS_EVENT_WANTED, ANY_LINK, DRAINING, on_wanted_draining },
	{ NVS_EVENT_CONNECTED, CONNECTING, ANY_LOCK, nvs_lock_on_connected },
	{ NVS_EVENT_CONNECT_FAILED, CONNECTING, ANY_LOCK, nvs_lock_on_connect_failed },
	{ NVS_EVENT_DISCONNECTED, REGISTERING | UP, ANY_LOCK, nvs_lock_on_disconnected },
	{ NVS_EVENT_BAD_FRAME, REGISTERING | UP, ANY_LOCK, nvs_lock_on_bad_frame },
	{ NVS_EVENT_SCHED_ON, REGISTERING, ANY_LOCK, nvs_lock_on_sched_on },
	{ NVS_EVENT_REFUSED, REGISTERING, ANY_LOCK, nvs_lock_on_refused },
	{ NVS_EVENT_LOCK_OK, UP, IDLE | WAITING, on_lock_ok },
	{ NVS_EVENT_LOCK_OK, UP, HOLDING | DRAINING, on_grant_numbered },
	{ NVS_EVENT_DROP_LOCK, UP, HOLDING, on_drop_lock },
	{ NVS_EVENT_DROP_LOCK, UP, DRAINING, on_drop_lock_draining },
	/* crossed with LOCK_RELEASED */
	{ NVS_EVENT_DROP_LOCK, UP, IDLE | WAITING, ignore },
	{ NVS_EVENT_WAITERS, UP, HOLDING, on_waiters },
	/* crossed with LOCK_RELEASED */
	{ NVS_EVENT_WAITERS, UP, IDLE | WAITING | DRAINING, ignore },
	{ NVS_EVENT_DRAINED, ANY_LINK, DRAINING, on_drained },
	{ NVS_EVENT_STEPPING, ANY_LINK, DRAINING, on_stepping },
	{ NVS_EVENT_PUT_OFF, ANY_LINK, DRAINING, on_put_off },
	{ NVS_EVENT_LOOKED, ANY_LINK, ANY_LOCK, on_looked },
	{ NVS_EVENT_REASON, UP, ANY_LOCK, on_reason },
	{ NVS_EVENT_GANG, UP, ANY_LOCK, on_gang },
	{ NVS_EVENT_LOST, ANY_LINK, ANY_LOCK, on_lost },
	{ NVS_EVENT_WOKE, UP, WAITING, on_woke },
	{ NVS_EVENT_TIMER, ANY_LINK, ANY_LOCK, on_timer },
};

bool nvs_lock_state_handle(struct nvs_lock_state *state, const struct nvs_lock_event *event,
			   uint64_t now, struct nvs_lock_actions *out)
{
	out->count = 0;
	for (unsigned int i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].event == event->kind && rules[i].links & 1 << state->link &&
		    rules[i].locks & 1 << state->lock)
			return rules[i].handler(state, event, now, out);
	return false;
}

uint64_t nvs_lock_state_deadline(const struct nvs_lock_state *state)
{
	const uint64_t all[] = {
		state->link == NVS_LINK_DOWN ? state->retry_at : NVS_LOCK_NEVER,
		drain_deadline(state),
		look_deadline(state),
		state->tell_at,
	};
	uint64_t first = NVS_LOCK_NEVER;

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i] < first)
			first = all[i];
	return first;
}

void nvs_lock_state_init(struct nvs_lock_state *state, int on_missing, uint32_t pid,
			 uint64_t patience, uint64_t now)
{
	memset(state, 0, sizeof(*state));
	state->on_missing = on_missing;
	state->jitter = pid;
	state->patience = patience;
	state->retry_at = now;
	state->look_at = state->drain_at = NVS_LOCK_NEVER;
	nvs_lock_wait_ends(state);
}

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
		"wanted",   "connected", "connect-failed", "disconnected", "bad-frame",
		"SCHED_ON", "LOCK_OK",	 "DROP_LOCK",	   "WAITERS",	   "REFUSED",
		"drained",  "stepping",	 "put-off",	   "looked",	   "timer",
		"REASON",   "GANG",	 "lost",	   "woke",
	};

	return names[kind];
}
