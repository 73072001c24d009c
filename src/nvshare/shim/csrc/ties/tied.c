/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the notes, newest first, with a count for each kind, so that what most handles are not asks
 * nobody. `lock` protects the notes. The ties themselves are told without it.
 */
#include "ties/tied.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "process/thread.h"
#include "ties/ties.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvs_tied *newest;
static _Atomic uint32_t counts[NVS_TIED_KINDS];

static void enter(void)
{
	nvs_cancel_off();
	pthread_mutex_lock(&lock);
}

static void leave(void)
{
	pthread_mutex_unlock(&lock);
	nvs_cancel_on();
}

static bool is_of(const struct nvs_tied *note, int kind, uint64_t handle)
{
	return note->kind == kind && note->handle == handle;
}

/* With the lock held. */
static void put_in(struct nvs_tied *note)
{
	note->next = newest;
	newest = note;
	atomic_fetch_add(&counts[note->kind], 1);
}

void nvs_tied_add(const struct nvs_tied *tied)
{
	struct nvs_tied *note = malloc(sizeof(*note));

	if (!note)
		return;
	*note = *tied;
	enter();
	put_in(note);
	leave();
}

bool nvs_tied_has(int kind, uint64_t handle, const uint8_t key[NVS_WIRE_KEY_BYTES])
{
	const struct nvs_tied *note;

	enter();
	for (note = newest; note; note = note->next)
		if (is_of(note, kind, handle) && !memcmp(note->key, key, NVS_WIRE_KEY_BYTES))
			break;
	leave();
	return note;
}

struct nvs_tied *nvs_tied_take(int kind, uint64_t handle, bool all)
{
	struct nvs_tied **place = &newest, *taken = NULL, **last = &taken;

	if (!atomic_load_explicit(&counts[kind], memory_order_relaxed))
		return NULL;
	enter();
	while (*place && (all || !taken)) {
		struct nvs_tied *note = *place;

		if (is_of(note, kind, handle)) {
			*place = note->next;
			atomic_fetch_sub(&counts[kind], 1);
			note->next = NULL;
			*last = note;
			last = &note->next;
		} else {
			place = &note->next;
		}
	}
	leave();
	return taken;
}

void nvs_tied_end(struct nvs_tied *taken)
{
	while (taken) {
		struct nvs_tied *note = taken;

		taken = note->next;
		nvs_untie(note->device, note->key, note->tie);
		free(note);
	}
}

void nvs_tied_keep(struct nvs_tied *taken)
{
	/* What was taken first is the newest. */
	if (!taken)
		return;
	nvs_tied_keep(taken->next);
	enter();
	put_in(taken);
	leave();
}

bool nvs_tied_child(uint64_t handle, enum nvs_tied_child how, struct nvs_tied *parent)
{
	struct nvs_tied *oldest = NULL;

	enter();
	for (struct nvs_tied *note = newest; note; note = note->next)
		if (is_of(note, NVS_TIED_COMMUNICATOR, handle))
			oldest = note;
	if (oldest) {
		*parent = *oldest;
		oldest->children[how]++;
	}
	leave();
	return oldest;
}

/* What the parent noted is left where it is: the child's memory may be in any state. */
void nvs_tied_forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	newest = NULL;
	memset(counts, 0, sizeof(counts));
}
