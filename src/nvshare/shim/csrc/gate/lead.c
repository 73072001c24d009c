/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leader of a cut, pure. Owns nothing.
 *
 * The kernels of a gang wait for each other, so its members can't stop wherever they are: who has
 * stopped may be what another one's kernel waits for. They stop at a consistent cut: a place where
 * all work of all members has completed. Nothing is known of what they run, but this:
 *
 * - Programs that do the same on every device are at the same place when they have made the same
 *   number of submissions. So those behind first catch up with the furthest one, in one go.
 *   Whether they are such programs the last cut has shown: there they had made as many.
 * - A member that has completed, while another has not, may be what that one waits for: it takes a
 *   step. Then there is a pause, in which everybody's work can show that it has completed. Without
 *   it members overtake each other for ever. For the same reason a step that should take long is
 *   only taken after twice that time: the other one's work may simply not be over. Each step that
 *   did not help is followed by one of twice as many submissions, which ends when it has helped.
 * - When nobody completes for long, the submissions that are needed may be anybody's: everybody
 *   steps, by the rules of a single drain (drain.c).
 *
 * The end needs no second look: a member that has completed, and may take no step, stays so until
 * the leader says otherwise. So when all say that, all stay so.
 *
 * The leader alone decides, and waits for everybody's answer to a command before the next one. A
 * member that becomes the leader because the one before it is gone first makes all stand still.
 */
#include "gate/lead.h"

#include <string.h>

#define MICROSECOND 1000u
#define MILLISECOND 1000000u
#define PAUSE (400 * MICROSECOND)
#define SETTLE MILLISECOND /* calls in flight that end sooner are waited for, to be counted */
#define EVERYBODY (20 * MILLISECOND)
#define PATIENCE (200 * MILLISECOND) /* waiting in kernels teaches pacing that they take long */
#define OVERDUE (2000ull * MILLISECOND)
#define PUT_OFF 10000000000ull
#define MOST_BEHIND 4096 /* as many as streams' queues may hold; more means different programs */
#define MOST_BATCH 256
#define ODDS 16 /* a difference of so many, or of one of so many, is none */

static void order(struct nvs_lead *lead, uint32_t slot, struct nvs_gang_command command,
		  struct nvs_lead_orders *out)
{
	struct nvs_lead_member *member = &lead->members[slot];

	/* No two leaders make the same one. */
	lead->revision = (lead->revision / NVS_GANG_SLOTS + 1) * NVS_GANG_SLOTS + lead->slot;
	command.version = member->revision = lead->revision;
	command.entry = member->entry;
	out->orders[slot] = command;
	out->to |= 1ULL << slot;
}

static void order_all(struct nvs_lead *lead, uint64_t members, uint64_t what,
		      struct nvs_lead_orders *out)
{
	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++)
		if (members >> slot & 1)
			order(lead, slot, (struct nvs_gang_command){ .order = what }, out);
}

static void allow(struct nvs_lead *lead, uint32_t slot, uint64_t allowed, uint64_t most,
		  uint64_t overdue, struct nvs_lead_orders *out)
{
	lead->members[slot].most_ns = most;
	order(lead, slot,
	      (struct nvs_gang_command){ .order = NVS_GANG_ALLOW,
					 .allowed = allowed,
					 .most_ns = most,
					 .overdue_ns = overdue },
	      out);
}

/* Who follows another leader's commands is stopped first. */
static void adopt(struct nvs_lead *lead, uint32_t slot, const struct nvs_gang_status *status,
		  uint64_t now, struct nvs_lead_orders *out)
{
	lead->members[slot] = (struct nvs_lead_member){ .entry = status->entry,
							.version = status->version,
							.taken = status->taken,
							.heard_at = now };
	if (status->revision || status->left)
		order(lead, slot, (struct nvs_gang_command){ .order = NVS_GANG_FREEZE }, out);
}

/*
 * Who takes part, and how that goes: false: nothing can be decided now. `*nowhere`: nor will it.
 * Who does not run is no member now: it holds no lock, and nobody's kernel can wait for it.
 */
static bool gather(struct nvs_lead *lead, const struct nvs_gang_status *statuses, uint64_t present,
		   uint64_t now, uint64_t *members, bool *nowhere, struct nvs_lead_orders *out)
{
	bool all = true, answered = true;

	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++) {
		const struct nvs_gang_status *status = &statuses[slot];
		struct nvs_lead_member *member = &lead->members[slot];

		if (!(present >> slot & 1) || !(status->flags & (NVS_GANG_RUNS | NVS_GANG_IN))) {
			member->entry = 0;
			continue;
		}
		if (!(status->flags & NVS_GANG_IN)) {
			all = false;
			/* It has left by itself, and opens its gate. */
			*nowhere |= member->entry != 0;
			continue;
		}
		*members |= 1ULL << slot;
		if (member->entry != status->entry)
			adopt(lead, slot, status, now, out);
		if (member->version != status->version)
			member->heard_at = now;
		member->version = status->version;
		answered &= status->revision == member->revision;
		*nowhere |= (status->flags & NVS_GANG_STUCK) || now - member->heard_at > PUT_OFF;
	}
	*nowhere |= !all && now - lead->began_at > PUT_OFF;
	*nowhere |= !answered && now - lead->ordered_at > PUT_OFF;
	return all && answered && !*nowhere;
}

/* What changed since the last look. */
static void observe(struct nvs_lead *lead, const struct nvs_gang_status *statuses, uint64_t members,
		    uint64_t now)
{
	if (!lead->gathered_at)
		lead->gathered_at = lead->changed_at = now;
	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++) {
		const struct nvs_gang_status *status = &statuses[slot];
		struct nvs_lead_member *member = &lead->members[slot];
		bool complete = status->flags & NVS_GANG_COMPLETE;

		if (!(members >> slot & 1))
			continue;
		if (complete != member->complete || status->taken != member->taken)
			lead->changed_at = now;
		if (status->taken && !lead->stepped_at)
			lead->stepped_at = now;
		member->complete = complete;
		member->taken = status->taken;
	}
}

struct sum {
	bool complete;	     /* all */
	bool others;	     /* all those that may not take a step */
	bool flight;	     /* calls of some are in flight */
	uint64_t may_step;   /* which may take one now */
	uint64_t furthest;   /* the highest count */
	uint64_t incomplete; /* which are not complete */
};

static struct sum sum_up(const struct nvs_gang_status *statuses, uint64_t members)
{
	struct sum sum = { .complete = true, .others = true };

	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++) {
		const struct nvs_gang_status *status = &statuses[slot];
		bool complete = status->flags & NVS_GANG_COMPLETE;

		if (!(members >> slot & 1))
			continue;
		sum.complete &= complete;
		sum.flight |= (status->flags & NVS_GANG_FLIGHT) != 0;
		if (status->left)
			sum.may_step |= 1ULL << slot;
		else
			sum.others &= complete;
		if (!complete)
			sum.incomplete |= 1ULL << slot;
		if (status->count > sum.furthest)
			sum.furthest = status->count;
	}
	return sum;
}

/* Someone of the furthest is not complete: otherwise they wait for nobody. */
static bool waits(const struct nvs_gang_status *statuses, uint64_t members, uint64_t furthest)
{
	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++)
		if (members >> slot & 1 && statuses[slot].count == furthest &&
		    !(statuses[slot].flags & NVS_GANG_COMPLETE))
			return true;
	return false;
}

static void catch_up(struct nvs_lead *lead, const struct nvs_gang_status *statuses,
		     uint64_t members, uint64_t furthest, struct nvs_lead_orders *out)
{
	lead->caught_up = true;
	if (!lead->even || !waits(statuses, members, furthest))
		return;
	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++) {
		const struct nvs_gang_status *status = &statuses[slot];
		uint64_t behind;

		if (!(members >> slot & 1) || status->count == furthest)
			continue;
		behind = furthest - status->count;
		if (behind > MOST_BEHIND)
			behind = MOST_BEHIND;
		lead->catching = true;
		allow(lead, slot, status->taken + behind, UINT64_MAX, UINT64_MAX, out);
	}
}

/* Offers a step: true; or lets one take longer that nobody took. */
static bool step(struct nvs_lead *lead, uint32_t slot, const struct nvs_gang_status *status,
		 uint64_t count, uint64_t most, uint64_t overdue, struct nvs_lead_orders *out)
{
	uint64_t before = lead->members[slot].most_ns;

	if (!status->left) {
		allow(lead, slot, status->taken + count, most, overdue, out);
		return true;
	}
	if (most > before && most - before >= before / 2)
		allow(lead, slot, status->taken + status->left, most, overdue, out);
	return false;
}

static void step_those(struct nvs_lead *lead, const struct nvs_gang_status *statuses,
		       uint64_t members, uint64_t incomplete, uint64_t now,
		       struct nvs_lead_orders *out)
{
	uint64_t waited = now - lead->changed_at, overdue = now - lead->began_at;
	uint64_t most = waited < PATIENCE ? waited / 2 : UINT64_MAX;
	uint64_t everybodys = waited < OVERDUE ? waited / 2 : UINT64_MAX;
	bool everybody = waited >= EVERYBODY, stepped = false;

	if (overdue >= OVERDUE)
		overdue = UINT64_MAX;
	if (everybody || lead->awaited & ~incomplete)
		lead->batch = 1;
	lead->awaited = incomplete;
	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++) {
		if (!(members >> slot & 1))
			continue;
		if (!(incomplete >> slot & 1))
			stepped |= step(lead, slot, &statuses[slot], lead->batch, most, UINT64_MAX,
					out);
		else if (everybody)
			step(lead, slot, &statuses[slot], 1, everybodys, overdue, out);
	}
	lead->catching = !everybody && (lead->catching || lead->batch > 1);
	if (stepped && lead->batch < MOST_BATCH)
		lead->batch *= 2;
}

/* The counts of a cut say what those of the next one will mean. */
static void end(struct nvs_lead *lead, const struct nvs_gang_status *statuses, uint64_t members,
		uint64_t furthest, struct nvs_lead_orders *out)
{
	lead->even = true;
	for (uint32_t slot = 0; slot < NVS_GANG_SLOTS; slot++)
		if (members >> slot & 1 && furthest - statuses[slot].count > ODDS &&
		    furthest - statuses[slot].count > furthest / ODDS)
			lead->even = false;
	order_all(lead, members, NVS_GANG_END, out);
}

static void decide(struct nvs_lead *lead, const struct nvs_gang_status *statuses, uint64_t members,
		   uint64_t now, struct nvs_lead_orders *out)
{
	struct sum sum;

	observe(lead, statuses, members, now);
	sum = sum_up(statuses, members);
	if (sum.complete && !sum.may_step) {
		end(lead, statuses, members, sum.furthest, out);
		return;
	}
	/* Who catches up does so for those that have not completed: now all have. */
	if (sum.complete || (lead->catching && sum.others && members & ~sum.may_step)) {
		lead->catching = false;
		order_all(lead, sum.may_step, NVS_GANG_FREEZE, out);
		return;
	}
	if (lead->stepped_at && now - lead->stepped_at > PUT_OFF) {
		order_all(lead, members, NVS_GANG_PUT_OFF, out);
		return;
	}
	if (!lead->caught_up) {
		if (!sum.flight || now - lead->gathered_at >= SETTLE)
			catch_up(lead, statuses, members, sum.furthest, out);
		return;
	}
	if (now - lead->changed_at < PAUSE || now - lead->ordered_at < PAUSE)
		return;
	step_those(lead, statuses, members, sum.incomplete, now, out);
}

void nvs_lead_begin(struct nvs_lead *lead, uint32_t slot, uint64_t revision, bool even,
		    uint64_t now)
{
	memset(lead, 0, sizeof(*lead));
	lead->slot = slot;
	lead->revision = revision;
	lead->even = even;
	lead->batch = 1;
	lead->began_at = lead->changed_at = lead->ordered_at = now;
}

void nvs_lead_look(struct nvs_lead *lead, const struct nvs_gang_status *statuses, uint64_t present,
		   uint64_t now, struct nvs_lead_orders *out)
{
	uint64_t members = 0;
	bool nowhere = false;

	out->to = 0;
	if (gather(lead, statuses, present, now, &members, &nowhere, out))
		decide(lead, statuses, members, now, out);
	else if (nowhere)
		order_all(lead, members, NVS_GANG_PUT_OFF, out);
	if (out->to)
		lead->ordered_at = now;
}
