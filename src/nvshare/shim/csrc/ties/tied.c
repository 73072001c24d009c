/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the notes, newest first, with a count for each kind, so that what most handles are not asks
 * nobody. `lock` protects the notes. The ties themselves are told without it.
 */
#include "ties/tied.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "process/mutex.h"
#include "ties/ties.h"

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_TIED);
static struct nvs_tied *newest;
static _Atomic uint32_t counts[NVS_TIED_KINDS];

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
	NVS_HOLD(&lock);
	put_in(note);
}

bool nvs_tied_has(int kind, uint64_t handle, const uint8_t key[NVS_WIRE_KEY_BYTES])
{
	NVS_HOLD(&lock);
	for (const struct nvs_tied *note = newest; note; note = note->next)
		if (is_of(note, kind, handle) && !memcmp(note->key, key, NVS_WIRE_KEY_BYTES))
			return true;
	return false;
}

struct nvs_tied *nvs_tied_take(int kind, uint64_t handle, bool all)
{
	struct nvs_tied **place = &newest, *taken = NULL, **last = &taken;

	if (!atomic_load_explicit(&counts[kind], memory_order_relaxed))
		return NULL;
	NVS_HOLD(&lock);
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
	return taken;
}

/* What was taken first is the newest. */
static void keep(struct nvs_tied *taken)
{
	if (!taken)
		return;
	keep(taken->next);
	NVS_HOLD(&lock);
	put_in(taken);
}

void nvs_tied_end(struct nvs_tied *taken, bool ended)
{
	if (!ended)
		keep(taken);
	while (ended && taken) {
		struct nvs_tied *note = taken;

		taken = note->next;
		nvs_untie(note->device, note->key, note->tie);
		free(note);
	}
}

bool nvs_tied_child(uint64_t handle, enum nvs_tied_child how, struct nvs_tied *parent)
{
	struct nvs_tied *oldest = NULL;

	NVS_HOLD(&lock);
	for (struct nvs_tied *note = newest; note; note = note->next)
		if (is_of(note, NVS_TIED_COMMUNICATOR, handle))
			oldest = note;
	if (oldest) {
		*parent = *oldest;
		oldest->children[how]++;
	}
	return oldest;
}

/* What the parent noted is left where it is: the child's memory may be in any state. */
void nvs_tied_forked(void)
{
	nvs_mutex_forked(&lock);
	newest = NULL;
	memset(counts, 0, sizeof(counts));
}
