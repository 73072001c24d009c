/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that the members of a gang share: a memory file that the scheduler makes and sends with
 * the frame GANG. The members agree by it when to stop, submission by submission: through the
 * scheduler each of these steps would cost a turn of its event loop, and a scheduler that ends in
 * the middle would leave them stopped at different places.
 *
 * The scheduler writes the head, sets a bit of `absent` when the client of a slot is gone, and
 * counts in `granted` how often it gave a member the lock since the page was made, before it says
 * LOCK_OK: a member that has not heard of its lock yet is waited for all the same. Each member
 * writes its own status, and the leader, which is the lowest member that takes part, the commands.
 * A status or a command is read as a whole or not at all: its writer makes the version 0, writes
 * the rest, and then a version that it never had.
 *
 * Whoever is in the gang can write anything anywhere, so what is read are numbers of no
 * consequence but to how long a cut takes. Numbers are in the machine's byte order. cffi reads the
 * part between the two "cdef" marks, so that part holds plain declarations only.
 */
#ifndef NVSHARE_GANG_H
#define NVSHARE_GANG_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
#define NVS_GANG_MAGIC 0x67616e672d637574
#define NVS_GANG_SLOTS 64

enum nvs_gang_flags {
	NVS_GANG_RUNS = 1,     /* the gate may be open, or what passed it may run */
	NVS_GANG_IN = 2,       /* takes part in a cut, with the gate closed */
	NVS_GANG_COMPLETE = 4, /* all has completed that was submitted so far */
	NVS_GANG_FLIGHT = 8,   /* calls are in flight: they are not counted yet */
	NVS_GANG_STUCK = 16, /* can't go on: a thread has waited for too long to begin a capture */
};

enum nvs_gang_order {
	NVS_GANG_ALLOW = 1,  /* so many submissions may pass since the gate was closed */
	NVS_GANG_FREEZE = 2, /* no more than those that have */
	NVS_GANG_END = 3,    /* all are complete: the lock may be given back */
	NVS_GANG_PUT_OFF = 4 /* it led nowhere: hold the lock again, and try later */
};

/* Two cache lines: a line that another processor writes has to be fetched, often with the next. */
struct nvs_gang_status {
	uint64_t version;
	uint64_t flags; /* enum nvs_gang_flags */
	uint64_t entry; /* counts up whenever it goes in */
	/* the version of the last command that it follows; 0: none since it went in */
	uint64_t revision;
	uint64_t taken;	   /* submissions that passed the closed gate since it went in */
	uint64_t left;	   /* that may pass beside them */
	uint64_t count;	   /* submissions since it had this page, or since the last cut */
	uint64_t returned; /* one more than of `granted` it gave back; 0: an older library */
	uint64_t unused[8];
};

struct nvs_gang_command {
	uint64_t version;
	uint64_t order;	     /* enum nvs_gang_order */
	uint64_t entry;	     /* of the member when it was given: it is void for another one */
	uint64_t allowed;    /* ALLOW */
	uint64_t most_ns;    /* ALLOW: no submission passes that should take longer */
	uint64_t overdue_ns; /* ALLOW: nor one of a thread whose work should take longer with it */
	uint64_t unused[10];
};

struct nvs_gang_page {
	uint64_t magic;
	uint64_t slots;
	uint64_t absent; /* a bit for each slot */
	uint64_t unused[13];
	struct nvs_gang_status statuses[NVS_GANG_SLOTS];
	struct nvs_gang_command commands[NVS_GANG_SLOTS];
	uint64_t granted[NVS_GANG_SLOTS]; /* zero where the scheduler is an older one */
};
/* cdef end */

_Static_assert(sizeof(struct nvs_gang_status) == 128, "a status has its own cache lines");
_Static_assert(sizeof(struct nvs_gang_command) == 128, "a command has its own cache lines");
_Static_assert(offsetof(struct nvs_gang_page, statuses) == 128, "so has the head");

#endif
