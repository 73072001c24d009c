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
	int pins;	       /* synchronizations that go on */
	_Atomic uint32_t life; /* 2 more after each end; odd: may be ending */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic(struct nvs_context *) contexts;
static _Atomic uint32_t generation;
static struct nvs_context unseen; /* stands for those that are not in the list */

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
		atomic_store(&entry->ordinal, ordinal);
		atomic_store(&entry->context, context);
	}
	pthread_mutex_unlock(&lock);
	errno = saved;
}

/*
 * The client thread may be synchronizing the context just now; to destroy it meanwhile would crash
 * that thread, and with it the program.
 */
void nvs_context_ending(CUcontext context)
{
	struct nvs_context *entry;

	if (!context)
		return;
	pthread_mutex_lock(&lock);
	entry = find(context);
	while (entry && entry->pins)
		pthread_cond_wait(&changed, &lock);
	if (entry && !entry->primary)
		atomic_store(&entry->context, NULL);
	if (!entry || !entry->primary)
		atomic_fetch_add(&(entry ? entry : &unseen)->life, 2);
	atomic_fetch_add(&generation, 1);
	pthread_mutex_unlock(&lock);
}

void nvs_context_primary_ending(int ordinal)
{
	struct nvs_context *entry;

	pthread_mutex_lock(&lock);
	entry = find_primary(ordinal);
	while (entry && entry->pins)
		pthread_cond_wait(&changed, &lock);
	/* Between here and nvs_context_primary_ended nobody may begin to synchronize it. */
	if (entry) {
		entry->pins = -1;
		atomic_fetch_or(&entry->life, 1);
	}
	pthread_mutex_unlock(&lock);
}

void nvs_context_primary_ended(int ordinal, bool ended)
{
	struct nvs_context *entry;

	pthread_mutex_lock(&lock);
	entry = find_primary(ordinal);
	if (entry) {
		entry->pins = 0;
		atomic_fetch_add(&entry->life, ended ? 1 : -1);
	}
	atomic_fetch_add(&generation, 1);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int nvs_context_ordinal(CUcontext context)
{
	struct nvs_context *entry = context ? find(context) : NULL;

	return entry ? atomic_load(&entry->ordinal) : -1;
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

static void synchronize(const struct nvs_context *entry)
{
	CUcontext popped;

	/*
	 * An error means that the context is gone or broken for good; nothing runs in it any more.
	 */
	if (!is_alive(entry) ||
	    NVS_CALL(cuCtxPushCurrent_v2, atomic_load(&entry->context)) != CUDA_SUCCESS)
		return;
	NVS_CALL(cuCtxSynchronize);
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
}

void nvs_contexts_synchronize(const struct nvs_device *device)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&contexts); entry; entry = entry->next) {
		bool pinned = false;

		/*
		 * Pinned rather than locked: the device may work for long, and the program must be
		 * able to make and end other contexts meanwhile.
		 */
		pthread_mutex_lock(&lock);
		while (entry->pins < 0)
			pthread_cond_wait(&changed, &lock);
		if (atomic_load(&entry->context) &&
		    atomic_load(&entry->ordinal) == device->ordinal) {
			entry->pins++;
			pinned = true;
		}
		pthread_mutex_unlock(&lock);
		if (!pinned)
			continue;
		synchronize(entry);
		pthread_mutex_lock(&lock);
		entry->pins--;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
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
		atomic_store(&entry->life, (atomic_load(&entry->life) | 1) + 1);
	}
	atomic_fetch_add(&unseen.life, 2);
	atomic_fetch_add(&generation, 1);
}
