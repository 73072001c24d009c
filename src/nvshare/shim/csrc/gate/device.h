/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record for every device that this process uses: the meeting point of the gate, the client and
 * the memory. Records are created on the first context of a device, never freed, and are reset in a
 * forked child.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVS_MAX_DEVICES 64

struct nvs_client;
struct nvs_device;

enum nvs_gate_state {
	NVS_GATE_CLOSED = 0, /* submissions wait */
	NVS_GATE_OPEN = 1,   /* submissions pass */
	/* submissions wait, except while a capture is going on in this process */
	NVS_GATE_CLOSING = 2,
	NVS_GATE_FAILING = 3, /* submissions fail with CUDA_ERROR_SYSTEM_NOT_READY */
	NVS_GATE_LOST = 4     /* submissions answer what lost.h says */
};

/* Owned by gate.c and drain.c. */
struct nvs_gate {
	_Atomic int state;
	_Atomic uint32_t waiting; /* threads that wait at it; also the futex word's companion */
	_Atomic uint32_t wakeups; /* futex word */
	/*
	 * While it is closed: so many submissions may pass, each of which should take no more than
	 * `step` nanoseconds, and whose thread should have no more outstanding than `overdue`
	 */
	_Atomic uint32_t steps;
	_Atomic uint64_t step;
	_Atomic uint64_t overdue;
	/* Memory that they may use is not in: the lock is held, and yet nothing may pass. */
	_Atomic bool lacks_memory;
};

/* What happened to a device, a bit each, for whoever listens to it. */
enum nvs_news {
	NVS_NEWS_WANTED = 1, /* a submission found the gate closed */
	NVS_NEWS_FOOTPRINT = 2,
	NVS_NEWS_ROOM =
		4, /* room.h: there is something to say, or all is in that the gate waited for */
	NVS_NEWS_TIES = 8,
	NVS_NEWS_SHARED = 16, /* exports.h, parts.h: there is something to say */
	/* A call has waited for memory for so long that its user is to be told why. */
	NVS_NEWS_MEMORY_WAITS = 32,
	NVS_NEWS_LOST = 64,
	NVS_NEWS_SUSPECTED = 128, /* lost.h: it may be lost */
	NVS_NEWS_DOOR = 256,	  /* door.h: a call waits at it, or it has opened */
	NVS_NEWS_STORE = 512,	  /* pieces.h, store.h: what was begun behind the door has ended */
	NVS_NEWS_OTHERS = 1024	  /* the first bit that is the listener's own */
};

/* Whom the device tells what happened to it. Any thread calls; the calls return at once. */
struct nvs_listener {
	void (*hear)(struct nvs_device *device, enum nvs_news news);
	/* Words for the line of refused memory: which other scheduler has the device; empty: none.
	 */
	void (*name_other)(struct nvs_device *device, char *text, size_t size);
};

struct nvs_device {
	int ordinal;	      /* CUDA's number in this process */
	uint8_t uuid[16];     /* what the lock belongs to */
	uint64_t total_bytes; /* as the driver says */
	struct nvs_gate gate;
	/*
	 * Devices whose memory its kernels may use and which move that memory: a bit for each
	 * ordinal, never its own. Its submissions pass their gates too, and their drains wait for
	 * its work. Only grows.
	 */
	_Atomic uint64_t reaches;
	/* until when its backlog is short because of others; written by its client thread only */
	_Atomic uint64_t contended_until_ns;
	_Atomic uint64_t footprint_bytes; /* charged; written by nvs_room_commit only */
	_Atomic bool in_gang;		  /* written by gang_page.c only */
	_Atomic int lost;		  /* CUresult; written by lost.c only */
	_Atomic bool suspect;		  /* it may be lost; written by lost.c only */
	/* Of pacing at the device's work, and of them those that found all of it completed. */
	_Atomic uint64_t looks, empty_looks;
	const struct nvs_listener *listener; /* set by its starter */
	_Atomic bool unheard;	   /* nobody heard what it was told last: who waits says it again */
	struct nvs_client *client; /* owned by client.c */
};

/* What allocations may have of it beside contexts and modules, as far as it isn't known better. */
uint64_t nvs_device_usable_bytes(const struct nvs_device *device);

static inline void nvs_device_tell(struct nvs_device *device, enum nvs_news news)
{
	device->listener->hear(device, news);
}

/* The only device that this process uses; NULL: none so far, or several. Owned by device.c. */
extern _Atomic(struct nvs_device *) nvs_device_only;

/*
 * The record of a device; creates it, and starts its client, when this is the device's first use.
 * NULL: no such device.
 */
struct nvs_device *nvs_device_use(int ordinal);
/* The record of a device that nvs_device_use has seen; NULL: it has not. */
struct nvs_device *nvs_device_known(int ordinal);
/* The next one of the mask, a bit for each ordinal, behind that one (NULL: the first); NULL: none.
 */
struct nvs_device *nvs_device_after(const struct nvs_device *before, uint64_t mask);
/* All of a mask that nvs_device_use has seen. */
#define NVS_EACH_DEVICE(device, mask)                                          \
	for (struct nvs_device *device = nvs_device_after(NULL, mask); device; \
	     (device) = nvs_device_after(device, mask))
/*
 * Makes the rest of the library ready for a device that is used for the first time, before anybody
 * else sees its record. Not from two threads at a time. There is one, start.c's. The linker puts it
 * where device.c finds it: nothing of ours runs before the first use and could register it, and a
 * call of it would lead from the bottom of the library to its top.
 */
typedef void nvs_device_starter(struct nvs_device *device);
#define NVS_DEVICE_STARTER(function)       \
	static nvs_device_starter *starter \
		__attribute__((used, retain, section("nvs_device_starter"))) = (function)
/*
 * Whether others wait for the device, or this process waits for those that it had to give it to.
 * Who has had to share it lately will have to again, so it counts for a minute longer; but not
 * for who was told that all use it `together` now.
 */
void nvs_device_tell_others(struct nvs_device *device, bool others_wait, bool waits, bool together,
			    uint64_t now_ns);
static inline bool nvs_device_contended(const struct nvs_device *device, uint64_t now_ns)
{
	return atomic_load_explicit(&device->contended_until_ns, memory_order_relaxed) > now_ns;
}
/* In a forked child. */
void nvs_devices_forked(void);
