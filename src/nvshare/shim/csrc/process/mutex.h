/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's mutexes, and the order in which a thread takes them. Who holds one takes only such
 * as come later in this list, and never a second one of the same place: so no two threads can wait
 * for each other. The builds with sanitizers check it at each lock (NVS_CHECK_ORDER).
 *
 * A thread that holds one is not cancelled: it would end with the mutex held.
 */
#pragma once

#include <pthread.h>

#include "process/ends.h"

enum nvs_order {
	/* Held while functions of other files are called, which take later ones. */
	NVS_ORDER_DEVICES, /* gate/device.c: a first use starts a device's client */
	NVS_ORDER_VIRTUAL, /* memory/swap/virtual.c: over the whole of a call of the program's */
	NVS_ORDER_PEERS,   /* memory/swap/peers.c: while the chunks are told */
	NVS_ORDER_EXPORTS, /* memory/swap/exports.c: blocks are looked up */
	NVS_ORDER_ALLOCATIONS, /* memory/swap/allocations.c: chunks are pinned and entered */
	NVS_ORDER_ROOM,	       /* memory/room.c: the terms are read */
	NVS_ORDER_PARTS,       /* memory/swap/parts.c: a descriptor is noted */
	/* Held for look-ups and changes of their own file's only. */
	NVS_ORDER_CONTEXTS,
	NVS_ORDER_CAPTURES,
	NVS_ORDER_GANGS,
	NVS_ORDER_TIES,
	NVS_ORDER_TIED,
	NVS_ORDER_OPENS,
	NVS_ORDER_UNIFIED,
	NVS_ORDER_HANDLES,
	NVS_ORDER_CHUNKS,
	NVS_ORDER_ARENA,
	NVS_ORDER_STORE,
	NVS_ORDER_ACCOUNT,
	NVS_ORDER_POOLS,
	/* Of process/files.c; fork(2) takes it. */
	NVS_ORDER_FILES,
};

struct nvs_mutex {
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* what it protects */
#ifdef NVS_CHECK_ORDER
	enum nvs_order order;
#endif
};

/* Otherwise all zero: what a mutex is in takes no room in the library's file. */
#ifdef NVS_CHECK_ORDER
#define NVS_MUTEX(place)                       \
	{ .mutex = PTHREAD_MUTEX_INITIALIZER,  \
	  .changed = PTHREAD_COND_INITIALIZER, \
	  .order = (place) }
#else
#define NVS_MUTEX(place) { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }
#endif

void nvs_mutex_lock(struct nvs_mutex *mutex);
void nvs_mutex_unlock(struct nvs_mutex *mutex);
/* Gives it up until what it protects has changed; in a loop, as pthread_cond_wait. */
void nvs_mutex_wait(struct nvs_mutex *mutex);
/* That has changed: who waits looks again. */
void nvs_mutex_changed(struct nvs_mutex *mutex);
/* Takes the mutex, and gives it back where the block ends that this stands in. */
#define NVS_HOLD(mutex) struct nvs_mutex *nvs_held_ NVS_ENDS(nvs_mutex_end) = nvs_mutex_begin(mutex)
struct nvs_mutex *nvs_mutex_begin(struct nvs_mutex *mutex);
void nvs_mutex_end(struct nvs_mutex *const *mutex);
/* In a forked child, of whose threads none holds it. */
void nvs_mutex_forked(struct nvs_mutex *mutex);
