/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of contexts. `lock` protects it, is signalled when a wait for a context, or a call
 * that may end one, is over, and is not held while the driver is called. Entries are used again but
 * never freed, so that look-ups need no lock.
 *
 * A drain may miss no context in which this process has submitted. So a context is noted when it is
 * made and when it becomes current, which no thread can do without before it submits; and, for
 * contexts that came into being around the hooks, when a thread submits for the first time or has
 * to wait. A device's primary context is asked for at every drain, seen or not.
 */
#define _GNU_SOURCE
#include "gate/contexts.h"

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "gate/context_list.h"
#include "gate/device.h"
#include "gate/marks.h"
#include "process/ends.h"
#include "process/mutex.h"
#include "process/thread.h"

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_CONTEXTS);
static _Atomic(struct nvs_context *) contexts;
static struct nvs_context primaries[NVS_MAX_DEVICES];
static struct nvs_context unseen; /* stands for those that are not in the list */
static _Atomic uint32_t generation;
/* For each device: since the last synchronization there was a context that submissions may be of */
static bool seen[NVS_MAX_DEVICES];
static uint64_t submissions[NVS_MAX_DEVICES]; /* at that synchronization */

/* With the lock held. */
static void link_entry(struct nvs_context *entry)
{
	entry->next = atomic_load(&contexts);
	atomic_store(&contexts, entry);
}

static struct nvs_context *find(CUcontext context)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&contexts); entry; entry = entry->next)
		if (atomic_load(&entry->context) == context)
			return entry;
	return NULL;
}

/* With the lock held. NULL: there can be no such device. */
static struct nvs_context *find_primary(int ordinal)
{
	struct nvs_context *entry;

	if (ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return NULL;
	entry = &primaries[ordinal];
	if (!entry->primary) {
		entry->primary = true;
		atomic_store(&entry->ordinal, ordinal);
		link_entry(entry);
	}
	return entry;
}

/* With the lock held. NULL: no memory. */
static struct nvs_context *find_free(void)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&contexts); entry; entry = entry->next)
		if (!entry->primary && !atomic_load(&entry->context) && !entry->endings)
			return entry;
	entry = calloc(1, sizeof(*entry));
	if (entry)
		link_entry(entry);
	return entry;
}

/* With the lock held: nothing is known of how far it has come. */
static void run(struct nvs_context *entry)
{
	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++)
		entry->ends[ordinal].running = true;
}

void nvs_context_created(CUcontext context, int ordinal)
{
	NVS_KEEP_ERRNO;
	struct nvs_context *entry;

	if (ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return;
	nvs_mutex_lock(&lock);
	entry = find(context);
	/* It may have the address of one that has ended, which is just about to be told. */
	if (!entry || entry->endings)
		entry = find_free();
	if (entry) {
		entry->attached = 0;
		run(entry);
		atomic_store(&entry->ordinal, ordinal);
		atomic_store(&entry->context, context);
		seen[ordinal] = true;
	}
	nvs_mutex_unlock(&lock);
}

void nvs_context_primary_seen(CUcontext context, int ordinal)
{
	struct nvs_context *entry, *other;

	NVS_HOLD(&lock);
	other = find(context);
	entry = find_primary(ordinal);
	if (entry && entry != other) {
		if (other)
			atomic_store(&other->context, NULL);
		run(entry);
		atomic_store(&entry->context, context);
	}
	if (entry)
		seen[ordinal] = true;
}

/*
 * Takes the device's primary context, to be given back by cuDevicePrimaryCtxRelease_v2. False: it
 * has no users; to take it would bring it to life, and with it its memory.
 */
static bool take_primary(int ordinal, CUcontext *context)
{
	unsigned int flags;
	int active = 0;

	return NVS_CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active) == CUDA_SUCCESS &&
	       active && NVS_CALL(cuDevicePrimaryCtxRetain, context, ordinal) == CUDA_SUCCESS;
}

void nvs_context_note(CUcontext context)
{
	NVS_KEEP_ERRNO;
	CUcontext primary = NULL;
	CUdevice ordinal;

	if (!context || find(context))
		return;
	if (NVS_CALL(cuCtxGetDevice, &ordinal) == CUDA_SUCCESS && nvs_device_use(ordinal)) {
		if (take_primary(ordinal, &primary)) {
			nvs_context_primary_seen(primary, ordinal);
			NVS_CALL(cuDevicePrimaryCtxRelease_v2, ordinal);
		}
		if (context != primary)
			nvs_context_created(context, ordinal);
	}
}

void nvs_context_note_current(void)
{
	CUcontext context = NULL;

	if (NVS_CALL(cuCtxGetCurrent, &context) == CUDA_SUCCESS)
		nvs_context_note(context);
}

void nvs_context_attached(CUcontext context)
{
	struct nvs_context *entry;

	nvs_context_note(context);
	NVS_HOLD(&lock);
	entry = context ? find(context) : NULL;
	if (entry)
		entry->attached++;
}

/*
 * With the lock held, which is given up. Somebody may be waiting for the context just now; to end
 * it meanwhile would crash that thread, and with it the program.
 */
static struct nvs_context *begin_ending(struct nvs_context *entry)
{
	CUevent events[NVS_MAX_DEVICES];

	nvs_cancel_off();
	while (entry->pins)
		nvs_mutex_wait(&lock);
	if (!entry->endings++)
		atomic_fetch_add(&entry->life, 1);
	/* It would end with the context. If that does not end after all, nothing is known of it. */
	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++) {
		events[ordinal] = entry->ends[ordinal].event;
		entry->ends[ordinal].event = NULL;
	}
	run(entry);
	nvs_mutex_unlock(&lock);
	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++)
		if (events[ordinal])
			NVS_CALL(cuEventDestroy_v2, events[ordinal]);
	/* Who asks about events of the context's from here on finds that it may be ending. */
	nvs_marks_wait_looks();
	return entry;
}

struct nvs_context *nvs_context_ending(CUcontext context)
{
	struct nvs_context *entry;

	nvs_mutex_lock(&lock);
	entry = context ? find(context) : NULL;
	nvs_marks_report(entry ? nvs_device_known(entry->ordinal) : NULL);
	return begin_ending(entry ? entry : &unseen);
}

struct nvs_context *nvs_context_primary_ending(int ordinal)
{
	struct nvs_context *entry;

	nvs_mutex_lock(&lock);
	entry = find_primary(ordinal);
	nvs_marks_report(nvs_device_known(ordinal));
	return begin_ending(entry ? entry : &unseen);
}

struct nvs_context *nvs_context_primary_beginning(int ordinal)
{
	struct nvs_context *entry;

	nvs_cancel_off();
	NVS_HOLD(&lock);
	entry = find_primary(ordinal);
	while (entry && entry->endings)
		nvs_mutex_wait(&lock);
	if (entry)
		entry->pins++;
	return entry;
}

void nvs_context_primary_begun(struct nvs_context *entry)
{
	if (entry)
		nvs_context_unpin(entry);
	nvs_cancel_on();
}

bool nvs_context_detached(struct nvs_context *entry)
{
	NVS_HOLD(&lock);
	if (!entry->attached)
		return true;
	entry->attached--;
	return false;
}

void nvs_context_ended(struct nvs_context *entry, bool gone)
{
	nvs_mutex_lock(&lock);
	entry->ended |= gone;
	if (gone)
		atomic_store(&entry->context, NULL);
	if (entry != &unseen)
		seen[atomic_load(&entry->ordinal)] = true;
	if (!--entry->endings) {
		atomic_fetch_add(&entry->life, entry->ended ? 1 : -1);
		entry->ended = false;
	}
	atomic_fetch_add(&generation, 1);
	nvs_mutex_changed(&lock);
	nvs_mutex_unlock(&lock);
	nvs_cancel_on();
}

const struct nvs_context *nvs_context_record(CUcontext context)
{
	const struct nvs_context *entry = context ? find(context) : NULL;

	return entry ? entry : &unseen;
}

uint32_t nvs_context_life(const struct nvs_context *record)
{
	return atomic_load(&record->life);
}

int nvs_context_ordinal(CUcontext context)
{
	struct nvs_context *entry = context ? find(context) : NULL;

	return entry ? atomic_load(&entry->ordinal) : -1;
}

CUcontext nvs_context_primary(int ordinal)
{
	return ordinal >= 0 && ordinal < NVS_MAX_DEVICES ? atomic_load(&primaries[ordinal].context)
							 : NULL;
}

uint32_t nvs_context_generation(void)
{
	return atomic_load(&generation);
}

/*
 * It may have ended around the hooks. To make a dead context current succeeds (driver 580), and
 * crashes the program when it is left.
 */
static bool is_dead(CUcontext context)
{
	unsigned int version;
	CUresult result = NVS_CALL(cuCtxGetApiVersion, context, &version);

	return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool nvs_context_take(const struct nvs_context *entry, CUcontext *context)
{
	if (entry->primary)
		return take_primary(atomic_load(&entry->ordinal), context);
	*context = atomic_load(&entry->context);
	return !is_dead(*context);
}

void nvs_context_give_back(const struct nvs_context *entry)
{
	if (entry->primary)
		NVS_CALL(cuDevicePrimaryCtxRelease_v2, atomic_load(&entry->ordinal));
}

/* With the lock held. */
static bool is_of(const struct nvs_context *entry, const struct nvs_device *device)
{
	return atomic_load(&entry->ordinal) == device->ordinal &&
	       (entry->primary || atomic_load(&entry->context));
}

/* With the lock held. */
static void unpin(struct nvs_context *entry)
{
	entry->pins--;
	nvs_mutex_changed(&lock);
}

void nvs_context_unpin(struct nvs_context *entry)
{
	NVS_HOLD(&lock);
	unpin(entry);
}

/*
 * Pinned rather than locked: the device may work for long, and the program must be able to make and
 * end other contexts meanwhile.
 */
struct nvs_context *nvs_context_next(const struct nvs_device *device, struct nvs_context *after,
				     bool wait)
{
	struct nvs_context *entry;

	NVS_HOLD(&lock);
	find_primary(device->ordinal);
	if (after)
		unpin(after);
	for (entry = after ? after->next : atomic_load(&contexts); entry; entry = entry->next) {
		while (wait && entry->endings && is_of(entry, device))
			nvs_mutex_wait(&lock);
		if (!entry->endings && is_of(entry, device)) {
			entry->pins++;
			return entry;
		}
	}
	return NULL;
}

bool nvs_contexts_missed(int ordinal, uint64_t submitted, bool found)
{
	bool missed;

	NVS_HOLD(&lock);
	missed = !found && !seen[ordinal] && submitted != submissions[ordinal];
	seen[ordinal] = found;
	submissions[ordinal] = submitted;
	return missed;
}

void nvs_contexts_forked(void)
{
	struct nvs_context *entry;

	nvs_mutex_forked(&lock);
	for (entry = atomic_load(&contexts); entry; entry = entry->next) {
		atomic_store(&entry->context, NULL);
		atomic_store(&entry->life, (atomic_load(&entry->life) | 1) + 1);
		entry->pins = entry->endings = 0;
		entry->ended = false;
		memset(entry->ends, 0, sizeof(entry->ends));
	}
	atomic_store(&unseen.life, (atomic_load(&unseen.life) | 1) + 1);
	unseen.endings = 0;
	atomic_fetch_add(&generation, 1);
}
