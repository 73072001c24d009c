/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of contexts. `lock` protects it, `changed` is signalled when a synchronization, or
 * a call that may end a context, is over; the lock is not held while the driver is called. Entries
 * are used again but never freed, so that look-ups need no lock.
 *
 * A drain may miss no context in which this process has submitted. So a context is noted when it is
 * made and when it becomes current, which no thread can do without before it submits; and, for
 * contexts that came into being around the hooks, when a thread submits for the first time or has
 * to wait. A device's primary context is asked for at every drain, seen or not.
 */
#define _GNU_SOURCE
#include "gate/contexts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/marks.h"
#include "process/log.h"
#include "process/thread.h"

/*
 * One is pinned while it is synchronized, and nobody ends it meanwhile; while it may be ending
 * nobody pins it. Several threads may do either.
 */
struct nvs_context {
	struct nvs_context *next;
	_Atomic(CUcontext) context; /* NULL: not known (primary), or the entry is free */
	_Atomic int ordinal;
	bool primary;	       /* for good */
	unsigned int attached; /* by cuCtxAttach */
	unsigned int pins;     /* synchronizations that go on */
	unsigned int endings;  /* calls that go on and may end it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic(struct nvs_context *) contexts;
static struct nvs_context primaries[NVS_MAX_DEVICES];
static _Atomic uint32_t generation;
/* For each device: since the last synchronization there was a context that submissions may be of */
static bool seen[NVS_MAX_DEVICES];
static uint64_t submissions[NVS_MAX_DEVICES]; /* at that synchronization */

/* With the lock held. */
static void wait_for_change(void)
{
	/* Cancelled here, a thread would end with the lock held. */
	nvs_cancel_off();
	pthread_cond_wait(&changed, &lock);
	nvs_cancel_on();
}

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

void nvs_context_created(CUcontext context, int ordinal)
{
	int saved = errno;
	struct nvs_context *entry;

	if (ordinal < 0 || ordinal >= NVS_MAX_DEVICES)
		return;
	pthread_mutex_lock(&lock);
	entry = find(context);
	/* It may have the address of one that has ended, which is just about to be told. */
	if (!entry || entry->endings)
		entry = find_free();
	if (entry) {
		entry->attached = 0;
		atomic_store(&entry->ordinal, ordinal);
		atomic_store(&entry->context, context);
		seen[ordinal] = true;
	}
	pthread_mutex_unlock(&lock);
	errno = saved;
}

void nvs_context_primary_seen(CUcontext context, int ordinal)
{
	struct nvs_context *entry, *other;

	pthread_mutex_lock(&lock);
	other = find(context);
	entry = find_primary(ordinal);
	if (entry && entry != other) {
		if (other)
			atomic_store(&other->context, NULL);
		atomic_store(&entry->context, context);
	}
	if (entry)
		seen[ordinal] = true;
	pthread_mutex_unlock(&lock);
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
	int saved = errno;
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
	errno = saved;
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
	pthread_mutex_lock(&lock);
	entry = context ? find(context) : NULL;
	if (entry)
		entry->attached++;
	pthread_mutex_unlock(&lock);
}

/* With the lock held. */
static struct nvs_context *begin_ending(struct nvs_context *entry)
{
	nvs_cancel_off();
	while (entry && entry->pins)
		wait_for_change();
	if (entry)
		entry->endings++;
	return entry;
}

/*
 * A drain may be synchronizing the context just now; to end it meanwhile would crash the thread
 * that does so, and with it the program.
 */
struct nvs_context *nvs_context_ending(CUcontext context)
{
	struct nvs_context *entry;

	pthread_mutex_lock(&lock);
	entry = begin_ending(context ? find(context) : NULL);
	pthread_mutex_unlock(&lock);
	return entry;
}

struct nvs_context *nvs_context_primary_ending(int ordinal)
{
	struct nvs_context *entry;

	pthread_mutex_lock(&lock);
	entry = begin_ending(find_primary(ordinal));
	pthread_mutex_unlock(&lock);
	return entry;
}

bool nvs_context_detached(struct nvs_context *entry)
{
	bool gone;

	if (!entry)
		return true;
	pthread_mutex_lock(&lock);
	gone = !entry->attached;
	if (!gone)
		entry->attached--;
	pthread_mutex_unlock(&lock);
	return gone;
}

void nvs_context_ended(struct nvs_context *entry, bool gone)
{
	pthread_mutex_lock(&lock);
	if (entry) {
		entry->endings--;
		seen[atomic_load(&entry->ordinal)] = true;
	}
	if (entry && gone)
		atomic_store(&entry->context, NULL);
	atomic_fetch_add(&generation, 1);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	nvs_cancel_on();
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

/* False: there was no such context. */
static bool synchronize(const struct nvs_context *entry)
{
	CUcontext context = atomic_load(&entry->context), popped;

	if (entry->primary ? !take_primary(atomic_load(&entry->ordinal), &context)
			   : is_dead(context))
		return false;
	/*
	 * An error means that the context is gone or broken for good; nothing runs in it any more.
	 */
	if (NVS_CALL(cuCtxPushCurrent_v2, context) == CUDA_SUCCESS) {
		NVS_CALL(cuCtxSynchronize);
		NVS_CALL(cuCtxPopCurrent_v2, &popped);
	}
	if (entry->primary)
		NVS_CALL(cuDevicePrimaryCtxRelease_v2, atomic_load(&entry->ordinal));
	return true;
}

/*
 * Pinned rather than locked: the device may work for long, and the program must be able to make and
 * end other contexts meanwhile.
 */
static bool pin(struct nvs_context *entry, const struct nvs_device *device)
{
	bool pinned;

	pthread_mutex_lock(&lock);
	while (entry->endings && atomic_load(&entry->ordinal) == device->ordinal)
		wait_for_change();
	pinned = atomic_load(&entry->ordinal) == device->ordinal &&
		 (entry->primary || atomic_load(&entry->context));
	entry->pins += pinned;
	pthread_mutex_unlock(&lock);
	return pinned;
}

static void unpin(struct nvs_context *entry)
{
	pthread_mutex_lock(&lock);
	entry->pins--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/*
 * What was submitted belonged to some context. When there is none now, and there was none since the
 * last time, it was one that nobody has seen.
 */
static void check(const struct nvs_device *device, uint64_t submitted, bool found)
{
	static _Atomic bool told;
	bool missed;

	pthread_mutex_lock(&lock);
	missed = !found && !seen[device->ordinal] && submitted != submissions[device->ordinal];
	seen[device->ordinal] = found;
	submissions[device->ordinal] = submitted;
	pthread_mutex_unlock(&lock);
	if (missed && !atomic_exchange(&told, true))
		nvs_log("device %d: work was submitted in a context that the library has not seen; "
			"it may still run while others have the device",
			device->ordinal);
}

void nvs_contexts_synchronize(const struct nvs_device *device)
{
	uint64_t submitted = nvs_marks_submissions(device);
	struct nvs_context *entry;
	bool found = false;

	pthread_mutex_lock(&lock);
	find_primary(device->ordinal);
	pthread_mutex_unlock(&lock);
	for (entry = atomic_load(&contexts); entry; entry = entry->next)
		if (pin(entry, device)) {
			found |= synchronize(entry);
			unpin(entry);
		}
	check(device, submitted, found);
}

void nvs_contexts_forked(void)
{
	struct nvs_context *entry;

	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (entry = atomic_load(&contexts); entry; entry = entry->next) {
		atomic_store(&entry->context, NULL);
		entry->pins = entry->endings = 0;
	}
	atomic_fetch_add(&generation, 1);
}
