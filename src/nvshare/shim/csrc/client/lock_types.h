/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the lock of a device, as its client knows it, with that of the connection; what
 * happens to it, and what the client is to do then. Times are microseconds of any monotonic clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "process/on_missing.h"
#include "protocol/wire.h"

/* From which level on a scheduler knows of what. */
enum nvs_level {
	NVS_LEVEL_SWAP = 2,
	NVS_LEVEL_GANG = 3,
	NVS_LEVEL_PROGRESS = 3,
	NVS_LEVEL_SHARE = 3,
	NVS_LEVEL_TERMS = 3,
	NVS_LEVEL_LIMIT = 4,
	NVS_LEVEL_SLEEP = 6
};

/* cdef begin */
#define NVS_LOCK_NEVER 0xffffffffffffffff
#define NVS_LOCK_MAX_ACTIONS 6

enum nvs_link {
	NVS_LINK_DOWN = 0,	  /* no connection; the next attempt is at retry_at */
	NVS_LINK_CONNECTING = 1,  /* CONNECT was asked for */
	NVS_LINK_REGISTERING = 2, /* REGISTER was sent */
	NVS_LINK_UP = 3,	  /* the scheduler knows us */
};

enum nvs_lock {
	NVS_LOCK_IDLE = 0,     /* gate closed, nothing to run */
	NVS_LOCK_WAITING = 1,  /* gate closed, threads wait at it */
	NVS_LOCK_HOLDING = 2,  /* gate open */
	NVS_LOCK_DRAINING = 3, /* DRAIN was asked for; what had been submitted still runs */
};

enum nvs_lock_event_kind {
	NVS_EVENT_WANTED = 0, /* a submission found the gate closed */
	NVS_EVENT_CONNECTED = 1,
	NVS_EVENT_CONNECT_FAILED = 2,
	NVS_EVENT_DISCONNECTED = 3, /* the connection ended */
	NVS_EVENT_BAD_FRAME = 4,    /* the scheduler sent what it must not */
	NVS_EVENT_SCHED_ON = 5,
	NVS_EVENT_LOCK_OK = 6,
	NVS_EVENT_DROP_LOCK = 7,
	NVS_EVENT_WAITERS = 8,
	NVS_EVENT_REFUSED = 9,
	/* the gate is closed and all that was submitted has completed */
	NVS_EVENT_DRAINED = 10,
	NVS_EVENT_STEPPING = 11, /* the drain lets one submission at a time pass */
	NVS_EVENT_PUT_OFF = 12,	 /* the drain was given up for now; the gate is closed */
	NVS_EVENT_LOOKED = 13,	 /* LOOK was done */
	NVS_EVENT_TIMER = 14,	 /* the deadline has come; also when in doubt */
	NVS_EVENT_REASON = 15,	 /* the answer to ASK_REASON */
	NVS_EVENT_GANG = 16,	 /* `slots` */
	NVS_EVENT_LOST = 17,	 /* the device is lost to this process */
	NVS_EVENT_WOKE = 18,	 /* the process slept, and requests from before are void */
	NVS_EVENT_KINDS = 19,
};

struct nvs_lock_event {
	int kind;		    /* enum nvs_lock_event_kind */
	uint32_t waiters;	    /* WAITERS */
	uint32_t idle_microseconds; /* WAITERS */
	bool waiting;		    /* DRAINED: threads wait at the gate already */
	bool completed;		    /* LOOKED: all of `submissions` had completed */
	uint64_t submissions;	    /* LOOKED: the count when the look began */
	uint32_t level;		    /* SCHED_ON */
	uint64_t epoch;		    /* SCHED_ON */
	uint64_t grant;		    /* LOCK_OK, DROP_LOCK */
	uint32_t slots;		    /* GANG: of the gang; 0: it is in none */
	bool final;		    /* REFUSED: for good */
};

enum nvs_lock_action_kind {
	NVS_ACTION_CONNECT = 0,
	NVS_ACTION_DISCONNECT = 1,
	NVS_ACTION_SEND_REGISTER = 2, /* `state`, `grant`, and the state's epoch */
	NVS_ACTION_SEND_REQ_LOCK = 3,
	NVS_ACTION_SEND_LOCK_RELEASED = 4, /* `grant` */
	NVS_ACTION_OPEN_GATE = 5,
	/* close the gate and answer with DRAINED or PUT_OFF; a LOOK that goes on is forgotten */
	NVS_ACTION_DRAIN = 6,
	NVS_ACTION_FAIL_GATE = 7,
	NVS_ACTION_CLOSE_GATE = 8, /* take FAIL_GATE back */
	NVS_ACTION_LOOK = 9,	   /* is the device idle? Answer with LOOKED */
	NVS_ACTION_WARN_MISSING = 10,
	NVS_ACTION_WARN_LOST = 11,
	NVS_ACTION_WARN_BAD_FRAME = 12,
	NVS_ACTION_WARN_REFUSED = 13,
	NVS_ACTION_SEND_DRAIN_REPORT = 14, /* `state`, `grant` */
	NVS_ACTION_SEND_ASK_REASON = 15,
	NVS_ACTION_WARN_WAITING = 16, /* threads wait, since `waiting_since` */
	NVS_ACTION_SEND_IDLE = 17,
	NVS_ACTION_LOSE_GATE = 18, /* nothing passes: calls answer why the device is lost */
};

struct nvs_lock_action {
	int kind; /* enum nvs_lock_action_kind */
	/* SEND_REGISTER: enum nvs_wire_state; SEND_DRAIN_REPORT: enum nvs_wire_drain */
	int state;
	uint64_t grant; /* SEND_REGISTER, SEND_LOCK_RELEASED, SEND_DRAIN_REPORT */
};

struct nvs_lock_actions {
	uint32_t count;
	struct nvs_lock_action list[NVS_LOCK_MAX_ACTIONS];
};

struct nvs_lock_state {
	int link;	   /* enum nvs_link */
	int lock;	   /* enum nvs_lock */
	int on_missing;	   /* enum nvs_on_missing */
	int registered_as; /* enum nvs_wire_state: what REGISTER said */
	uint32_t jitter;   /* spreads the attempts of many clients */
	uint32_t failures; /* attempts since the link was last up */
	bool seen;	   /* some scheduler registered us once */
	bool missing;	   /* on_missing applies */
	bool failing;	   /* the gate fails */
	bool warned;	   /* of a missing scheduler */
	bool refused;	   /* and said so */
	bool bad_told;	   /* of a bad frame */
	bool lost;	   /* the device, to this process: it needs no lock, and keeps none */
	bool sent_away;	   /* because the scheduler says so, for good: there is no connection */
	/* `grant` is the number by which the present scheduler knows our grant */
	bool numbered;
	bool drained;	   /* while draining: it is over, and the scheduler can't hear it yet */
	bool wanted_again; /* since it was over */
	bool looking;	   /* LOOK was asked for, and is not answered */
	bool asked;	   /* the scheduler, why threads wait; it has not answered */
	bool completed;	   /* result of the last look */
	bool gives_way;	   /* holding: when it is idle for long enough */
	bool in_gang;	   /* it gives the lock back together with others, when it is told to */
	int report;	   /* enum nvs_wire_drain: how the drain goes; 0: as drains do */
	uint32_t put_off;  /* drains that were, since the lock was last given back */
	uint32_t level;	   /* of the scheduler */
	uint32_t waiters;
	uint32_t idle_microseconds;
	uint64_t submissions; /* at the last look */
	uint64_t epoch;	      /* of the last scheduler */
	uint64_t grant;	      /* while holding or draining; 0: runs without one */
	uint64_t retry_at;    /* DOWN: the next attempt */
	uint64_t look_at;     /* the next look at idleness */
	uint64_t drain_at;    /* HOLDING: a drain was put off until then; NEVER: none */
	uint64_t patience;    /* how long threads wait before the user is told why */
	uint64_t tell_at;     /* when that is; NEVER: nobody waits, or it was told */
	uint64_t waiting_since;
};
/* cdef end */
