/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of contexts. `lock` protects it, `changed` is signalled when a synchronization
 * ends; the lock is not held while the driver is called. Entries are used again but never freed, so
 * that look-ups need no lock.
 */
#define _GNU_SOURCE
#include "gate/contexts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"

struct nvs_context {
	struct nvs_context *next;
	_Atomic(CUcontext) context; /* NULL: the entry is free */
	_Atomic int ordinal;
	bool primary;
	int pins; /* synchronizations that go on */
	/*
	 * The end of what was submitted; NULL: not made, or taken away because the context may end.
	 * Written by the thread that has pinned the entry, or made sure that nobody has.
	 */
	CUevent event;
	bool running; /* the event was recorded, or should be, and is not known to have completed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic(struct nvs_context *) contexts;
static _Atomic uint32_t generation;

static struct nvs_context *find(CUcontext context)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&contexts); entry; entry = entry->next)
		if (atomic_load(&entry->context) == context)
			return entry;
	return NULL;
}

static struct nvs_context *find_primary(int ordinal)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&contexts); entry; entry = entry->next)
		if (entry->primary && atomic_load(&entry->context) &&
		    atomic_load(&entry->ordinal) == ordinal)
			return entry;
	return NULL;
}

void nvs_context_created(CUcontext context, int ordinal, bool primary)
{
	int saved = errno;
	struct nvs_context *entry;

	pthread_mutex_lock(&lock);
	entry = find(context);
	if (!entry)
		entry = find(NULL);
	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (entry) {
			entry->next = atomic_load(&contexts);
			atomic_store(&contexts, entry);
		}
	}
	if (entry) {
		entry->primary = primary;
		/* It may be one that failed to end: nothing is known of it. */
		entry->running = true;
		atomic_store(&entry->ordinal, ordinal);
		atomic_store(&entry->context, context);
	}
	pthread_mutex_unlock(&lock);
	errno = saved;
}

/*
 * With the lock held and nobody's pin: the event would end with the context. If that does not end
 * after all, nothing is known of it.
 */
static CUevent take_event(struct nvs_context *entry)
{
	CUevent event = entry->event;

	entry->event = NULL;
	entry->running = true;
	return event;
}

/*
 * The worker may be synchronizing the context just now; to destroy it meanwhile would crash that
 * thread, and with it the program.
 */
void nvs_context_ending(CUcontext context)
{
	struct nvs_context *entry;
	CUevent event = NULL;

	if (!context)
		return;
	pthread_mutex_lock(&lock);
	entry = find(context);
	while (entry && entry->pins)
		pthread_cond_wait(&changed, &lock);
	if (entry)
		event = take_event(entry);
	if (entry && !entry->primary)
		atomic_store(&entry->context, NULL);
	atomic_fetch_add(&generation, 1);
	pthread_mutex_unlock(&lock);
	if (event)
		NVS_CALL(cuEventDestroy_v2, event);
}

void nvs_context_primary_ending(int ordinal)
{
	struct nvs_context *entry;
	CUevent event = NULL;

	pthread_mutex_lock(&lock);
	entry = find_primary(ordinal);
	while (entry && entry->pins)
		pthread_cond_wait(&changed, &lock);
	/* Between here and nvs_context_primary_ended nobody may begin to synchronize it. */
	if (entry) {
		entry->pins = -1;
		event = take_event(entry);
	}
	pthread_mutex_unlock(&lock);
	if (event)
		NVS_CALL(cuEventDestroy_v2, event);
}

void nvs_context_primary_ended(int ordinal)
{
	struct nvs_context *entry;

	pthread_mutex_lock(&lock);
	entry = find_primary(ordinal);
	if (entry)
		entry->pins = 0;
	atomic_fetch_add(&generation, 1);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int nvs_context_ordinal(CUcontext context)
{
	struct nvs_context *entry = context ? find(context) : NULL;

	return entry ? atomic_load(&entry->ordinal) : -1;
}

CUcontext nvs_context_primary(int ordinal)
{
	struct nvs_context *entry;
	CUcontext context;

	pthread_mutex_lock(&lock);
	entry = find_primary(ordinal);
	context = entry ? atomic_load(&entry->context) : NULL;
	pthread_mutex_unlock(&lock);
	return context;
}

uint32_t nvs_context_generation(void)
{
	return atomic_load(&generation);
}

/* To push a primary context that has no users would bring it back to life, and with it its memory.
 */
static bool is_alive(const struct nvs_context *entry)
{
	unsigned int flags;
	int active = 0;

	if (!entry->primary)
		return true;
	return NVS_CALL(cuDevicePrimaryCtxGetState, atomic_load(&entry->ordinal), &flags,
			&active) == CUDA_SUCCESS &&
	       active;
}

/*
 * Pinned rather than locked: the device may work for long, and the program must be able to make and
 * end other contexts meanwhile. False: the entry is not the device's, or (unless `wait`) its
 * context may be ending just now.
 */
static bool pin(struct nvs_context *entry, const struct nvs_device *device, bool wait)
{
	bool pinned;

	pthread_mutex_lock(&lock);
	while (wait && entry->pins < 0)
		pthread_cond_wait(&changed, &lock);
	pinned = entry->pins >= 0 && atomic_load(&entry->context) &&
		 atomic_load(&entry->ordinal) == device->ordinal;
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

/* An error means that the context is gone or broken for good; nothing runs in it any more. */
static void synchronize(const struct nvs_context *entry)
{
	CUcontext popped;

	if (!is_alive(entry) ||
	    NVS_CALL(cuCtxPushCurrent_v2, atomic_load(&entry->context)) != CUDA_SUCCESS)
		return;
	NVS_CALL(cuCtxSynchronize);
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
}

static bool make_event(struct nvs_context *entry)
{
	CUcontext popped;

	if (entry->event)
		return true;
	if (NVS_CALL(cuCtxPushCurrent_v2, atomic_load(&entry->context)) != CUDA_SUCCESS)
		return false;
	if (NVS_CALL(cuEventCreate, &entry->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		entry->event = NULL;
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
	return entry->event != NULL;
}

static void record(struct nvs_context *entry)
{
	entry->running = is_alive(entry) && NVS_REAL(cuCtxRecordEvent) && make_event(entry) &&
			 NVS_CALL(cuCtxRecordEvent, atomic_load(&entry->context), entry->event) ==
				 CUDA_SUCCESS;
	if (!entry->running)
		synchronize(entry);
}

void nvs_contexts_record(const struct nvs_device *device)
{
	for (struct nvs_context *entry = atomic_load(&contexts); entry; entry = entry->next) {
		/*
		 * One whose context may be ending is passed over, here and in the query: the call
		 * that ends it has its mark set, and takes the event away.
		 */
		if (pin(entry, device, false)) {
			record(entry);
			unpin(entry);
		}
	}
}

static enum nvs_completion query(struct nvs_context *entry)
{
	if (!entry->running)
		return NVS_COMPLETION_DONE;
	if (!entry->event)
		return NVS_COMPLETION_UNKNOWN;
	/* Any other error means that nothing runs in the context any more. */
	entry->running = NVS_CALL(cuEventQuery, entry->event) == CUDA_ERROR_NOT_READY;
	return entry->running ? NVS_COMPLETION_RUNS : NVS_COMPLETION_DONE;
}

enum nvs_completion nvs_contexts_query(const struct nvs_device *device)
{
	enum nvs_completion all = NVS_COMPLETION_DONE;

	for (struct nvs_context *entry = atomic_load(&contexts); entry; entry = entry->next) {
		enum nvs_completion one = NVS_COMPLETION_DONE;

		if (pin(entry, device, false)) {
			one = query(entry);
			unpin(entry);
		}
		if (one > all)
			all = one;
	}
	return all;
}

void nvs_contexts_synchronize(const struct nvs_device *device)
{
	for (struct nvs_context *entry = atomic_load(&contexts); entry; entry = entry->next) {
		if (pin(entry, device, true)) {
			synchronize(entry);
			unpin(entry);
		}
	}
}

void nvs_contexts_forked(void)
{
	struct nvs_context *entry;

	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (entry = atomic_load(&contexts); entry; entry = entry->next) {
		atomic_store(&entry->context, NULL);
		entry->pins = 0;
		entry->event = NULL;
	}
	atomic_fetch_add(&generation, 1);
}
