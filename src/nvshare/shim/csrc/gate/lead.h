/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the leader of a cut orders, pure: the statuses of the members and the time in, commands out.
 * Nothing that it reads has to be true. Times are nanoseconds of any monotonic clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/gang.h"

/* cdef begin */
/* As the leader knows it. */
struct nvs_lead_member {
	uint64_t entry;	   /* of what is said here; 0: it does not take part */
	uint64_t revision; /* the last command; 0: none yet */
	uint64_t most_ns;  /* of the last ALLOW */
	/* at the last look, and since when the version stands still */
	uint64_t version, taken, heard_at;
	bool complete;
};

struct nvs_lead {
	uint64_t slot;	   /* the leader's own */
	uint64_t revision; /* the newest version of a command in the page */
	uint64_t began_at;
	uint64_t gathered_at; /* when all members took part; 0: not yet */
	uint64_t ordered_at;  /* the last command */
	uint64_t changed_at;  /* a submission passed, or some member's work completed or began */
	uint64_t stepped_at;  /* a submission passed first; 0: none has */
	bool even;	      /* at the last cut all had made about as many submissions */
	bool caught_up;	      /* those behind were told to catch up */
	bool catching;	      /* several submissions are allowed at once, for others to complete */
	uint64_t batch;	      /* so many are the next step */
	uint64_t awaited;     /* a bit for each slot that had not completed at the last step */
	struct nvs_lead_member members[NVS_GANG_SLOTS];
};

struct nvs_lead_orders {
	uint64_t to; /* a bit for each slot that gets one */
	struct nvs_gang_command orders[NVS_GANG_SLOTS];
};

/* `revision`: no command in the page has a higher version. `even`: see struct nvs_lead. */
void nvs_lead_begin(struct nvs_lead *lead, uint32_t slot, uint64_t revision, bool even,
		    uint64_t now);
/* `present`: a bit for each slot whose client is not gone. Members that leave get no orders. */
void nvs_lead_look(struct nvs_lead *lead, const struct nvs_gang_status *statuses, uint64_t present,
		   uint64_t now, struct nvs_lead_orders *out);
/* cdef end */
