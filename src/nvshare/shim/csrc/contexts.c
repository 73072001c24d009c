/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of contexts. nvs_contexts_lock protects it, nvs_contexts_changed is signalled when
 * a synchronization ends; the lock is not held while the driver is called. Entries are used again
 * but never freed, so that look-ups need no lock.
 */
#define _GNU_SOURCE
#include "contexts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "device.h"
#include "driver.h"

struct nvs_context {
	struct nvs_context *next;
	_Atomic(CUcontext) context; /* NULL: the entry is free */
	_Atomic int ordinal;
	bool primary;
	int pins; /* synchronizations that go on */
};

static pthread_mutex_t nvs_contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nvs_contexts_changed = PTHREAD_COND_INITIALIZER;
static _Atomic(struct nvs_context *) nvs_contexts;
static _Atomic uint32_t nvs_generation;

static struct nvs_context *nvs_context_find(CUcontext context)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&nvs_contexts); entry; entry = entry->next)
		if (atomic_load(&entry->context) == context)
			return entry;
	return NULL;
}

static struct nvs_context *nvs_context_find_primary(int ordinal)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&nvs_contexts); entry; entry = entry->next)
		if (entry->primary && atomic_load(&entry->context) &&
		    atomic_load(&entry->ordinal) == ordinal)
			return entry;
	return NULL;
}

void nvs_context_created(CUcontext context, int ordinal, bool primary)
{
	int saved = errno;
	struct nvs_context *entry;

	pthread_mutex_lock(&nvs_contexts_lock);
	entry = nvs_context_find(context);
	if (!entry)
		entry = nvs_context_find(NULL);
	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (entry) {
			entry->next = atomic_load(&nvs_contexts);
			atomic_store(&nvs_contexts, entry);
		}
	}
	if (entry) {
		entry->primary = primary;
		atomic_store(&entry->ordinal, ordinal);
		atomic_store(&entry->context, context);
	}
	pthread_mutex_unlock(&nvs_contexts_lock);
	errno = saved;
}

void nvs_context_ending(CUcontext context)
{
	struct nvs_context *entry;

	if (!context)
		return;
	pthread_mutex_lock(&nvs_contexts_lock);
	entry = nvs_context_find(context);
	while (entry && entry->pins)
		pthread_cond_wait(&nvs_contexts_changed, &nvs_contexts_lock);
	if (entry && !entry->primary)
		atomic_store(&entry->context, NULL);
	atomic_fetch_add(&nvs_generation, 1);
	pthread_mutex_unlock(&nvs_contexts_lock);
	nvs_device_handles_changed();
}

void nvs_context_primary_ending(int ordinal)
{
	struct nvs_context *entry;

	pthread_mutex_lock(&nvs_contexts_lock);
	entry = nvs_context_find_primary(ordinal);
	while (entry && entry->pins)
		pthread_cond_wait(&nvs_contexts_changed, &nvs_contexts_lock);
	/* Between here and nvs_context_primary_ended nobody may begin to synchronize it. */
	if (entry)
		entry->pins = -1;
	pthread_mutex_unlock(&nvs_contexts_lock);
}

void nvs_context_primary_ended(int ordinal)
{
	struct nvs_context *entry;

	pthread_mutex_lock(&nvs_contexts_lock);
	entry = nvs_context_find_primary(ordinal);
	if (entry)
		entry->pins = 0;
	atomic_fetch_add(&nvs_generation, 1);
	pthread_cond_broadcast(&nvs_contexts_changed);
	pthread_mutex_unlock(&nvs_contexts_lock);
	nvs_device_handles_changed();
}

int nvs_context_ordinal(CUcontext context)
{
	struct nvs_context *entry = context ? nvs_context_find(context) : NULL;

	return entry ? atomic_load(&entry->ordinal) : -1;
}

CUcontext nvs_context_primary(int ordinal)
{
	struct nvs_context *entry;
	CUcontext context;

	pthread_mutex_lock(&nvs_contexts_lock);
	entry = nvs_context_find_primary(ordinal);
	context = entry ? atomic_load(&entry->context) : NULL;
	pthread_mutex_unlock(&nvs_contexts_lock);
	return context;
}

uint32_t nvs_context_generation(void)
{
	return atomic_load_explicit(&nvs_generation, memory_order_relaxed);
}

static bool nvs_context_alive(const struct nvs_context *entry)
{
	unsigned int flags;
	int active = 0;

	if (!entry->primary)
		return true;
	return NVS_CALL(cuDevicePrimaryCtxGetState, atomic_load(&entry->ordinal), &flags,
			&active) == CUDA_SUCCESS &&
	       active;
}

static void nvs_context_synchronize(const struct nvs_context *entry)
{
	CUcontext popped;

	/*
	 * An error means that the context is gone or broken for good; nothing runs in it any more.
	 */
	if (!nvs_context_alive(entry) ||
	    NVS_CALL(cuCtxPushCurrent_v2, atomic_load(&entry->context)) != CUDA_SUCCESS)
		return;
	NVS_CALL(cuCtxSynchronize);
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
}

void nvs_contexts_synchronize(const struct nvs_device *device)
{
	struct nvs_context *entry;

	for (entry = atomic_load(&nvs_contexts); entry; entry = entry->next) {
		bool pinned = false;

		pthread_mutex_lock(&nvs_contexts_lock);
		while (entry->pins < 0)
			pthread_cond_wait(&nvs_contexts_changed, &nvs_contexts_lock);
		if (atomic_load(&entry->context) &&
		    atomic_load(&entry->ordinal) == device->ordinal) {
			entry->pins++;
			pinned = true;
		}
		pthread_mutex_unlock(&nvs_contexts_lock);
		if (!pinned)
			continue;
		nvs_context_synchronize(entry);
		pthread_mutex_lock(&nvs_contexts_lock);
		entry->pins--;
		pthread_cond_broadcast(&nvs_contexts_changed);
		pthread_mutex_unlock(&nvs_contexts_lock);
	}
}

void nvs_contexts_forked(void)
{
	struct nvs_context *entry;

	nvs_contexts_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	nvs_contexts_changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (entry = atomic_load(&nvs_contexts); entry; entry = entry->next) {
		atomic_store(&entry->context, NULL);
		entry->pins = 0;
	}
	atomic_fetch_add(&nvs_generation, 1);
}
