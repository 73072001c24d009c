/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire between a client (libnvshare.so) and the scheduler, protocol version 2.
 *
 * This is the only description of the layout: the shim includes it, and cffi makes Python's
 * extension of the part between the two "cdef" marks, so that part holds plain declarations only.
 * Every frame has the same size. Both ends run on one machine, so numbers are in the machine's byte
 * order. A version 1 frame begins with its type, 1 to 8, never with the magic.
 */
#ifndef NVSHARE_WIRE_H
#define NVSHARE_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
#define NVS_WIRE_MAGIC 0xA7
#define NVS_WIRE_VERSION 2
#define NVS_WIRE_UUID_BYTES 16
#define NVS_WIRE_TEXT_BYTES 96 /* in one frame */
#define NVS_WIRE_WHOLE_TEXT_BYTES 512
#define NVS_WIRE_NAME_BYTES 64

enum nvs_wire_type {
	NVS_REGISTER = 1,      /* client: who I am, on which device, in which state */
	NVS_SCHED_ON = 2,      /* scheduler: registered; client_id and epoch are yours */
	NVS_REQ_LOCK = 4,      /* client: I have work and no lock */
	NVS_LOCK_OK = 5,       /* scheduler: the lock is yours, as grant `grant` */
	NVS_DROP_LOCK = 6,     /* scheduler: drain and give grant `grant` back */
	NVS_LOCK_RELEASED = 7, /* client: grant `grant` is given back, nothing of mine runs */
	NVS_FOOTPRINT = 9,     /* client: my footprint is now footprint_bytes */
	/*
	 * scheduler, to a holder: `waiters` clients wait; give way once idle for idle_microseconds,
	 * from level 6 on even if nobody waits, but not for 0
	 */
	NVS_WAITERS = 10,
	/* scheduler: not registered, because of `text`; the connection ends */
	NVS_REFUSED = 11,
	/* Level 1: sent only to a scheduler whose SCHED_ON had this level or a higher one. */
	NVS_DRAIN_REPORT = 12, /* client: the drain of grant `grant` is in `drain` */
	NVS_NOTICE = 13,       /* client: `text` is what whoever looks at me should know */
	NVS_ASK_REASON = 14,   /* client: I still wait; why? Answered by REASON */
	NVS_REASON = 15,       /* scheduler: you wait because of `text`; nothing: you don't wait */
	/* Level 2: memory that swaps. Numbers are absolute: each frame makes older ones void. */
	NVS_GROW = 16,	/* client: let me have footprint_bytes and fixed_bytes, as `request` */
	NVS_ALLOT = 17, /* scheduler: so much may be yours; as `order` */
	NVS_EVICT = 18, /* scheduler: bring what is resident down to allotted_bytes; as `order` */
	NVS_RESIDENT = 19, /* client: my memory now; `order` is the last that I go by */
	/*
	 * scheduler: `request` is not granted, because of `text`; from level 4 on 0: whatever is
	 * asked for before LIMIT comes
	 */
	NVS_REFUSE_GROWTH = 20,
	/* scheduler, with a descriptor: segment_bytes more of host memory to swap into */
	NVS_ARENA = 21,
	/* Level 3: what a client is a part of, and what it may have. */
	NVS_TERMS = 22, /* client, after REGISTER: what my environment asks for */
	/* client: my work may wait for that of all who say this key; as `request` */
	NVS_JOIN = 23,
	NVS_LEAVE = 24,	 /* client: it does not any more */
	NVS_JOINED = 25, /* scheduler: JOIN `request` is in effect: your work may begin to wait */
	/* scheduler, with a descriptor (gang.h): you are one of a gang; no slots: of none, without
	 * one */
	NVS_GANG = 26,
	/* client of a gang, holding, WAITERS: all has completed that I submitted, and no more comes
	 */
	NVS_IDLE = 27,
	/* scheduler: say PROGRESS each idle_microseconds while you hold; 0: no more; `watch` */
	NVS_WATCH = 28,
	NVS_PROGRESS = 29, /* client: how far my work is */
	NVS_LIMIT = 30,	   /* scheduler: what your container may allocate on the device */
	/* client: who knows this key may have memory of mine on the device: ask me for it */
	NVS_SHARE = 31,
	NVS_UNSHARE = 32,     /* client: nobody may any more */
	NVS_OPEN_SHARED = 33, /* client: let me have part `index` of `key`; as `request` */
	NVS_ASK_SHARED = 34,  /* scheduler: give part `index` of `key`; as `request` of mine */
	/* both, with a descriptor: the part that `request` asked for */
	NVS_SHARED = 35,
	NVS_NOT_SHARED = 36, /* both: `request` has no such part to come, because of `text` */
	/*
	 * Level 4: LIMIT comes to every client that says it, once it is known what its container
	 * may have; it allocates nothing before. ASK_REASON and REASON may be of memory.
	 *
	 * Level 5: scheduler: `text` is how the text of the next frame begins that is none of
	 * these. A text has NVS_WIRE_WHOLE_TEXT_BYTES at most, with its NUL.
	 */
	NVS_TEXT = 37,
	/*
	 * Level 6: the process, with all of its devices, leaves them to the driver's checkpoint.
	 * Its door is what every call of the driver passes (gate/door.h).
	 */
	/*
	 * scheduler: close the door of your process, as `request`; when it is closed the driver is
	 * to know nothing of your host memory, as far as it lets go of that
	 */
	NVS_SLEEP = 38,
	/* client: it is closed, and nobody is inside, for `request`; 0: it was at REGISTER */
	NVS_ASLEEP = 39,
	/* client: it is not, because of `text`; `state` 1: it never will be */
	NVS_NOT_ASLEEP = 40,
	NVS_WAKE = 41, /* client: a call waits at the closed door */
	/* scheduler: the driver has all back, open the door; `state` 1: it has lost the process */
	NVS_AWAKE = 42,
	/*
	 * scheduler, with the descriptor of an empty file, to one that is asleep: what your host
	 * memory has is to be in the file, and the memory is to be free. Answered by STORED or
	 * NOT_STORED. It is for you again as ARENA, in any pieces, as much as there was, before
	 * AWAKE comes
	 */
	NVS_STORE = 43,
	NVS_STORED = 44,     /* client: it is in a file, since STORE or since before REGISTER */
	NVS_NOT_STORED = 45, /* client: it is not, because of `text`, and memory has it as before */
	/*
	 * client: host memory has it again, and the file ends, or no pack has any of it; `state` 1:
	 * it could not be read
	 */
	NVS_LOADED = 46,
	/*
	 * Blocks of host memory that other clients have as well are kept once, in a pack: a memory
	 * file of the scheduler's that nobody can write any more. All of these are about one that
	 * is asleep; whatever is not done because of `sharing.text` leaves its memory as it was.
	 */
	/* scheduler, with the descriptor of a catalogue (catalogue.h): sum up your blocks in it */
	NVS_SUM = 47,
	NVS_SUMMED = 48, /* client: it has so many entries; none because of a text */
	/*
	 * scheduler, with the descriptor of a pack to be: write there, where the catalogue says,
	 * what your blocks have
	 */
	NVS_PACK = 49,
	NVS_PACKED = 50, /* client: it is written; not because of a text */
	/*
	 * scheduler, with the descriptor of a pack: let go of each block that is equal to the one
	 * that the catalogue says. The memory is for you again as ARENA, in any pieces, away_bytes
	 * in all, before AWAKE comes; then LOADED
	 */
	NVS_DEDUP = 51,
	/*
	 * client: it is let go of, since DEDUP or since before REGISTER, which as STORED comes
	 * before ASLEEP; nothing because of a text
	 */
	NVS_DEDUPED = 52
};

/* Which of the later frames a scheduler knows. */
#define NVS_WIRE_LEVEL 6

enum nvs_wire_state {
	NVS_STATE_IDLE = 0,    /* gate closed, nothing to run */
	NVS_STATE_WAITING = 1, /* gate closed, threads wait at it */
	NVS_STATE_HOLDING = 2, /* gate open */
	NVS_STATE_DRAINING = 3 /* gate closed, what had been submitted still runs */
};

enum nvs_wire_drain {
	/* one submission at a time passes, since what runs may wait for one */
	NVS_DRAIN_STEPPING = 1,
	/* that led nowhere: the gate is open again, and the drain is tried later */
	NVS_DRAIN_PUT_OFF = 2
};

enum nvs_wire_backend {
	NVS_BACKEND_MANAGED = 0,
	NVS_BACKEND_NATIVE = 1
};

/* What makes clients wait for each other. */
enum nvs_wire_tie {
	NVS_TIE_NAME = 1,	/* the user says so: NVSHARE_GANG */
	NVS_TIE_COLLECTIVE = 2, /* one communicator of NCCL */
	NVS_TIE_MEMORY = 3	/* one gave out memory that another one opened */
};

enum nvs_wire_priority {
	NVS_PRIORITY_UNSAID = 0,
	NVS_PRIORITY_LOW = 1,
	NVS_PRIORITY_NORMAL = 2,
	NVS_PRIORITY_HIGH = 3
};

/* What becomes of memory asked for that only others' ends could free. */
enum nvs_wire_when_full {
	NVS_WHEN_FULL_UNSAID = 0,
	NVS_WHEN_FULL_WAIT = 1,
	NVS_WHEN_FULL_REFUSE = 2
};

/* When a process may leave its devices to the driver's checkpoint. */
enum nvs_wire_sleep {
	NVS_SLEEP_UNSAID = 0,
	NVS_SLEEP_NEVER = 1,
	NVS_SLEEP_PRESSURE = 2, /* where others lack memory */
	NVS_SLEEP_IDLE = 3	/* and when it has been idle for a while */
};

/* Bytes of a client whose memory swaps. What a frame does not name is zero. */
struct nvs_wire_memory {
	uint64_t order;		 /* no bytes: ALLOT, EVICT: counts up over both; RESIDENT */
	uint64_t allotted_bytes; /* ALLOT, EVICT: the most that may be resident */
	uint64_t admitted_bytes; /* ALLOT, RESIDENT: what the footprint may become unasked */
	uint64_t capacity_bytes; /* ALLOT: the most that the footprint could ever become */
	uint64_t fixed_bytes;	 /* GROW: wanted; RESIDENT: counted, and can't move */
	uint64_t resident_bytes; /* RESIDENT: of the footprint, on the device or on the way */
	uint64_t out_bytes;	 /* RESIDENT: of the footprint, contents in host memory alone */
	uint64_t arena_bytes;	 /* RESIDENT: host memory to swap into */
	uint64_t usable_bytes;	 /* RESIDENT: of it, ready for copies */
	uint64_t lacking_bytes;	 /* RESIDENT: refused by the driver within the allotment */
	/* ARENA: the size of what the descriptor is for; RESIDENT: of all such, given back */
	uint64_t segment_bytes;
	uint64_t spared_bytes; /* RESIDENT: of what ever left, host memory had it already */
};

#define NVS_WIRE_CONTAINER_BYTES 48
#define NVS_WIRE_KEY_BYTES 32

/* What a client's environment asks for; zero: nothing. */
struct nvs_wire_terms {
	uint64_t memory_limit_bytes;	    /* on each device, all processes of the container */
	uint64_t memory_request_bytes;	    /* of that, what stays on the device */
	uint32_t weight_thousandths;	    /* 1000: as everybody */
	uint32_t compute_limit_thousandths; /* of a device's time, at the most */
	uint32_t priority;		    /* enum nvs_wire_priority */
	/* what the processes are called that count as one container, outside of any */
	char container[NVS_WIRE_CONTAINER_BYTES];
	uint32_t when_full; /* enum nvs_wire_when_full; who does not know it reads nothing here */
	uint32_t sleep;	    /* enum nvs_wire_sleep; as well */
};

struct nvs_wire_gang {
	uint8_t key[NVS_WIRE_KEY_BYTES]; /* JOIN, LEAVE: who says the same belongs together */
	uint32_t tie;			 /* JOIN, LEAVE: enum nvs_wire_tie */
	/*
	 * JOIN: how many clients belong together, wherever they are; by name: how many processes
	 * of this node, all of which must be here before JOINED comes; 0: not known
	 */
	uint32_t size;
	uint32_t slot;	     /* GANG: your place in the page, from 0 */
	uint32_t slots;	     /* GANG: how many places the page has; 0: you are in no gang */
	uint64_t page_bytes; /* GANG: the size of what the descriptor is for */
	/* JOIN by name with a size: 1: JOINED has come before, maybe from another scheduler */
	uint32_t was_complete;
	uint32_t reserved;
};

/* All counted since the process began to use the device: only differences mean something. */
struct nvs_wire_progress {
	uint64_t submissions;
	uint64_t at_microseconds; /* of the client's monotonic clock, when they were counted */
	uint64_t looks;		  /* at how far the device has come */
	uint64_t empty_looks;	  /* of them, those that found nothing left to do */
};

struct nvs_wire_watch {
	/* 1: all hold at the same time until further notice, whoever had to wait before */
	uint32_t together;
};

struct nvs_wire_limit {
	uint64_t limit_bytes;  /* on this device; 0: none */
	uint64_t others_bytes; /* what other processes of the container have allocated of it */
};

/* Memory of one client that another one maps. */
struct nvs_wire_shared {
	uint8_t key[NVS_WIRE_KEY_BYTES]; /* SHARE, UNSHARE, OPEN_SHARED, ASK_SHARED */
	uint32_t index;			 /* OPEN_SHARED, ASK_SHARED, SHARED: a part, from 0 */
	uint32_t count;			 /* SHARED: of parts */
	uint64_t part_bytes;		 /* SHARED: of this one */
	uint64_t offset_bytes;		 /* SHARED: where in the first one it begins */
};

#define NVS_WIRE_SHARING_TEXT_BYTES 64

/* Blocks of host memory that are kept once for several clients. */
struct nvs_wire_sharing {
	uint64_t away_bytes; /* DEDUPED: of the arena, without memory: the pack has it */
	uint64_t pack_bytes; /* DEDUPED: of the pack */
	uint64_t pack;	     /* DEDUPED: its inode, by which a later scheduler tells packs apart */
	uint32_t count;	     /* SUMMED: entries of the catalogue */
	uint32_t unused;
	/* SUMMED, PACKED, DEDUPED: why it is not done; nothing: it is */
	char text[NVS_WIRE_SHARING_TEXT_BYTES];
};

struct nvs_frame {
	uint8_t magic;
	uint8_t version;
	uint8_t type; /* enum nvs_wire_type */
	/* REGISTER: enum nvs_wire_state; REFUSED, NOT_ASLEEP, AWAKE: 1: for good; LOADED */
	uint8_t state;
	uint8_t backend; /* REGISTER: enum nvs_wire_backend */
	/* SCHED_ON, REGISTER: NVS_WIRE_LEVEL of the one that sends it; from 3 on TERMS follows */
	uint8_t level;
	uint8_t drain; /* DRAIN_REPORT: enum nvs_wire_drain */
	uint8_t swaps; /* REGISTER: 1: my memory swaps; `backend` is for who can't know that */
	uint32_t pid;  /* REGISTER: the pid as the client sees it; a hint */
	/* WAITERS: clients that wait and cannot be admitted beside you; 0: nobody */
	uint32_t waiters;
	/* WAITERS: how long a holder is idle before it gives way; WATCH: between two PROGRESS */
	uint32_t idle_microseconds;
	/*
	 * GROW, JOIN, OPEN_SHARED, ASK_SHARED: counts up, for each; ALLOT: the newest that it
	 * grants, 0 for none; REFUSE_GROWTH, JOINED, SHARED, NOT_SHARED; ASK_REASON, REASON: 1 of
	 * memory, 0 of the lock; SLEEP counts up; ASLEEP, NOT_ASLEEP
	 */
	uint32_t request;
	uint64_t client_id; /* SCHED_ON */
	/* SCHED_ON: this scheduler's life; REGISTER: the last one known, 0 for none */
	uint64_t epoch;
	/*
	 * LOCK_OK, DROP_LOCK, LOCK_RELEASED, DRAIN_REPORT; REGISTER when HOLDING (0: runs without a
	 * grant) or DRAINING
	 */
	uint64_t grant;
	/* REGISTER, FOOTPRINT: bytes allocated on the device; GROW, RESIDENT: of what can move */
	uint64_t footprint_bytes;
	uint64_t total_bytes;			  /* REGISTER: memory of the device */
	uint8_t device_uuid[NVS_WIRE_UUID_BYTES]; /* REGISTER: as cuDeviceGetUuid_v2 gives it */
	union {
		/*
		 * REGISTER: command name; REFUSED, REASON, NOTICE, REFUSE_GROWTH, NOT_SHARED,
		 * NOT_ASLEEP, NOT_STORED: the text, or its end; TEXT: a piece; NUL-terminated UTF-8
		 */
		char text[NVS_WIRE_TEXT_BYTES];
		struct nvs_wire_memory memory; /* GROW, ALLOT, EVICT, RESIDENT, ARENA */
		struct nvs_wire_terms terms;
		struct nvs_wire_gang gang;	   /* JOIN, LEAVE, GANG */
		struct nvs_wire_progress progress; /* PROGRESS */
		struct nvs_wire_watch watch;
		struct nvs_wire_limit limit;
		struct nvs_wire_shared shared;
		struct nvs_wire_sharing sharing; /* SUMMED, PACKED, DEDUPED */
	};
	/* REGISTER: the host name that the client sees (in a pod, the pod's name) */
	char name_hint[NVS_WIRE_NAME_BYTES];
};
/* cdef end */

_Static_assert(sizeof(struct nvs_frame) == 240, "the frame has one fixed size");
_Static_assert(offsetof(struct nvs_frame, client_id) == 24, "no padding before the 64-bit fields");
_Static_assert(offsetof(struct nvs_frame, device_uuid) == 64, "no padding before the arrays");
_Static_assert(sizeof(struct nvs_wire_memory) <= NVS_WIRE_TEXT_BYTES, "it takes a text's place");
_Static_assert(sizeof(struct nvs_wire_terms) <= NVS_WIRE_TEXT_BYTES, "it takes a text's place");
_Static_assert(sizeof(struct nvs_wire_sharing) <= NVS_WIRE_TEXT_BYTES, "it takes a text's place");

#endif
