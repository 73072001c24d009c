/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns a member's part in a cut: it follows the commands in its slot of the page, says how far it
 * is, and leads when no lower member is there. What a leader orders is decided in lead.c. Runs in
 * the device's worker and has no state between two calls.
 *
 * Nothing here waits: not for the device, since another member's kernel may be what its work waits
 * for, nor for another member, since that one may be gone. A member whose leader says nothing more
 * opens its gate, and so do all others then. Whether its own device's work has completed it decides
 * by itself, whatever the page says: nobody else can make it give the lock back too early.
 */
#define _GNU_SOURCE
#include "gate/cut.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <time.h>

#include "gate/capture.h"
#include "gate/completion.h"
#include "gate/device.h"
#include "gate/gang_page.h"
#include "gate/gate.h"
#include "gate/lead.h"
#include "gate/marks.h"
#include "process/clock.h"
#include "process/log.h"

#define SECOND_NS 1000000000ull
#define STUCK_NS (10 * SECOND_NS)
#define SILENCE_NS (11 * SECOND_NS) /* of the leader, which puts off itself after ten */
/* the longest that a member waits which is complete itself, or keeps threads at its gate */
#define LONGEST_NS (60 * SECOND_NS)
#define FIRST_PAUSE_NS 20000u
#define LONGEST_PAUSE_NS 1000000u
#define MOST_AT_ONCE 4096u /* steps */

enum outcome {
	GOES_ON = 0,
	COMPLETED = 1,
	PUT_OFF = 2
};

struct cut {
	struct nvs_device *device;
	struct nvs_gang *gang;
	void (*stepping)(void *argument);
	void *argument;
	enum outcome outcome;
	uint64_t now, began_at;
	uint64_t changed_at;   /* something was said, ordered or done */
	uint64_t completed_at; /* since when it waits for others alone; 0: it does not */
	uint64_t allowed;      /* submissions since the gate was closed */
	uint64_t given;	       /* of them, those that the gate was told */
	uint64_t revision;     /* of the command that it follows */
	/* What the contexts' events stand behind, when they were recorded. */
	bool recorded;
	uint64_t recorded_taken;
	bool complete, synchronized;
	/* The leader, its version, and since when that stands still. */
	uint32_t leader;
	uint64_t leader_version, heard_at;
	bool leads;
	struct nvs_lead lead;
	struct nvs_lead_orders orders;
	struct nvs_gang_status seen[NVS_GANG_SLOTS];
};

static uint64_t taken(const struct cut *cut)
{
	return cut->given - atomic_load(&cut->device->gate.steps);
}

/* Its own part */

static void freeze(struct cut *cut)
{
	cut->given -= nvs_gate_withdraw_steps(cut->device);
	cut->allowed = cut->given;
}

static void allow(struct cut *cut, const struct nvs_gang_command *command)
{
	uint64_t more = command->allowed - cut->given; /* very many where that is less */

	if (more > MOST_AT_ONCE)
		more = 0;
	cut->allowed = cut->given + more;
}

/* Who waits at the gate hears of it also when only the times have changed. */
static void offer(struct cut *cut, const struct nvs_gang_command *command)
{
	if (atomic_load(&cut->device->gate.lacks_memory))
		return;
	nvs_gate_offer_steps(cut->device, (uint32_t)(cut->allowed - cut->given), command->most_ns,
			     command->overdue_ns);
	cut->given = cut->allowed;
}

/* Its work has completed, and no step is offered or was taken since that was seen. */
static bool may_end(const struct cut *cut)
{
	return cut->complete && cut->synchronized && cut->allowed == cut->recorded_taken;
}

static void follow(struct cut *cut)
{
	struct nvs_gang_command command;

	if (!nvs_gang_command(cut->gang, cut->gang->slot, &command) ||
	    command.entry != cut->gang->status.entry)
		return;
	if (command.version != cut->revision) {
		cut->changed_at = cut->now;
		if (command.order == NVS_GANG_ALLOW)
			allow(cut, &command);
		else
			freeze(cut);
		if (command.order == NVS_GANG_ALLOW)
			offer(cut, &command);
		cut->revision = command.version;
	} else if (command.order == NVS_GANG_ALLOW && cut->allowed > cut->given) {
		offer(cut, &command);
	}
	if (command.order == NVS_GANG_PUT_OFF)
		cut->outcome = PUT_OFF;
	else if (command.order == NVS_GANG_END && may_end(cut))
		cut->outcome = COMPLETED;
}

static void note_steps(struct cut *cut, uint64_t now_taken)
{
	if (now_taken == cut->recorded_taken)
		return;
	cut->changed_at = cut->now;
	/* After the steps were seen to be taken: the marks show whose they are. */
	nvs_marks_order();
	if (!cut->recorded_taken) {
		nvs_debug("device %d: its gang stops, and %llu submissions pass to catch up",
			  cut->device->ordinal, (unsigned long long)now_taken);
		cut->stepping(cut->argument);
	}
	cut->recorded = false;
	cut->recorded_taken = now_taken;
}

/* Everything that passed the gate so far has completed. */
static bool is_complete(struct cut *cut)
{
	note_steps(cut, taken(cut));
	if (!cut->recorded) {
		cut->synchronized = false;
		if (nvs_marks_set(cut->device))
			return false;
		nvs_contexts_record(cut->device);
		cut->recorded = true;
	}
	switch (nvs_contexts_query(cut->device)) {
	case NVS_COMPLETION_RUNS:
		return false;
	case NVS_COMPLETION_UNKNOWN:
		cut->recorded = false;
		return false;
	default:
		break;
	}
	if (taken(cut) != cut->recorded_taken)
		return false;
	/* As in a drain; while a step is offered it could wait for what takes it. */
	if (cut->allowed == cut->recorded_taken && !cut->synchronized) {
		nvs_contexts_synchronize(cut->device);
		cut->synchronized = true;
		cut->recorded = !nvs_marks_set(cut->device);
	}
	return cut->recorded;
}

static void say(struct cut *cut)
{
	struct nvs_gang_status *status = &cut->gang->status;
	bool flight = nvs_marks_set(cut->device), complete = is_complete(cut);
	bool stuck = nvs_capture_wanted() && cut->now - cut->began_at > STUCK_NS;

	if (complete != cut->complete)
		cut->changed_at = cut->now;
	cut->complete = complete;
	status->flags = NVS_GANG_RUNS | NVS_GANG_IN | (complete ? NVS_GANG_COMPLETE : 0) |
			(flight ? NVS_GANG_FLIGHT : 0) | (stuck ? NVS_GANG_STUCK : 0);
	status->revision = cut->revision;
	/* What completed is what was recorded: what was taken since is not said to be. */
	status->taken = cut->recorded_taken;
	status->left = cut->allowed - cut->recorded_taken;
	status->count = nvs_marks_submissions(cut->device) - cut->gang->base;
	nvs_gang_say(cut->gang);
}

/* The others */

static bool takes_part(const struct nvs_gang_status *status)
{
	return status->flags & (NVS_GANG_RUNS | NVS_GANG_IN);
}

/* The lowest that takes part and is not gone: at the latest this one. */
static uint32_t find_leader(struct cut *cut, uint64_t present)
{
	uint32_t slot;

	for (slot = 0; slot < cut->gang->slot; slot++) {
		nvs_gang_status(cut->gang, slot, &cut->seen[slot]);
		if (present >> slot & 1 && takes_part(&cut->seen[slot]))
			break;
	}
	return slot;
}

static void begin_to_lead(struct cut *cut)
{
	struct nvs_gang_command command;
	uint64_t revision = 0;

	for (uint32_t slot = 0; slot < cut->gang->slots; slot++)
		if (nvs_gang_command(cut->gang, slot, &command) && command.version > revision)
			revision = command.version;
	nvs_lead_begin(&cut->lead, cut->gang->slot, revision, !cut->gang->uneven, cut->now);
	cut->leads = true;
}

static void lead(struct cut *cut, uint64_t present)
{
	if (!cut->leads)
		begin_to_lead(cut);
	for (uint32_t slot = 0; slot < cut->gang->slots; slot++)
		nvs_gang_status(cut->gang, slot, &cut->seen[slot]);
	nvs_lead_look(&cut->lead, cut->seen, present, cut->now, &cut->orders);
	if (cut->orders.to)
		cut->changed_at = cut->now;
	cut->gang->uneven = !cut->lead.even;
	/* Its own last: then the others have theirs. */
	for (uint32_t i = 1; i <= NVS_GANG_SLOTS; i++) {
		uint32_t slot = (cut->gang->slot + i) % NVS_GANG_SLOTS;

		if (cut->orders.to >> slot & 1)
			nvs_gang_order(cut->gang, slot, &cut->orders.orders[slot]);
	}
}

/* False: it says nothing more. */
static bool hear_leader(struct cut *cut, uint32_t leader)
{
	if (leader != cut->leader || cut->seen[leader].version != cut->leader_version) {
		cut->leader = leader;
		cut->leader_version = cut->seen[leader].version;
		cut->heard_at = cut->now;
	}
	return cut->now - cut->heard_at <= SILENCE_NS;
}

/*
 * A leader lets whoever waits at a gate step, and puts off ten seconds after the first step; so of
 * all that is true in the page nothing makes a thread wait for longer.
 */
static bool waited_long(const struct cut *cut)
{
	uint64_t since =
		atomic_load(&cut->device->gate.waiting) ? cut->began_at : cut->completed_at;

	return since && cut->now - since > LONGEST_NS;
}

static void attend(struct cut *cut)
{
	uint64_t present = nvs_gang_present(cut->gang);
	uint32_t leader = find_leader(cut, present);

	cut->orders.to = 0;
	if (!may_end(cut))
		cut->completed_at = 0;
	else if (!cut->completed_at)
		cut->completed_at = cut->now;
	if (!(present >> cut->gang->slot & 1) || waited_long(cut))
		cut->outcome = PUT_OFF;
	else if (leader == cut->gang->slot)
		lead(cut, present);
	else if (!hear_leader(cut, leader))
		cut->outcome = PUT_OFF;
	if (leader != cut->gang->slot)
		cut->leads = false;
}

/*
 * The longer nothing has happened, the less it matters to see at once what does. What it ordered
 * itself a leader need not wait for.
 */
static void nap(const struct cut *cut)
{
	uint64_t pause = (cut->now - cut->changed_at) / 16;

	if (cut->orders.to >> cut->gang->slot & 1)
		return;
	if (pause < FIRST_PAUSE_NS)
		pause = FIRST_PAUSE_NS;
	if (pause > LONGEST_PAUSE_NS)
		pause = LONGEST_PAUSE_NS;
	nanosleep(&(struct timespec){ .tv_nsec = (long)pause }, NULL);
}

bool nvs_cut(struct nvs_device *device, struct nvs_gang *gang, void (*stepping)(void *argument),
	     void *argument)
{
	struct cut cut = {
		.device = device,
		.gang = gang,
		.stepping = stepping,
		.argument = argument,
		.leader = NVS_GANG_SLOTS,
	};

	/* A sleep is 50 us longer otherwise, and each step is waited for by several. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	cut.began_at = cut.changed_at = cut.now = nvs_now_ns();
	gang->status.entry++;
	for (;;) {
		say(&cut);
		follow(&cut);
		if (cut.outcome)
			break;
		say(&cut);
		attend(&cut);
		if (cut.outcome)
			break;
		nap(&cut);
		cut.now = nvs_now_ns();
	}
	prctl(PR_SET_TIMERSLACK, 0UL); /* as it was */
	/* Whoever takes a step now has its mark set, and the gate is about to open. */
	freeze(&cut);
	nvs_debug("device %d: its gang %s after %llu us, and %llu submissions that passed",
		  device->ordinal, cut.outcome == COMPLETED ? "has stopped" : "goes on",
		  (unsigned long long)((nvs_now_ns() - cut.began_at) / 1000),
		  (unsigned long long)cut.given);
	return cut.outcome == COMPLETED;
}
