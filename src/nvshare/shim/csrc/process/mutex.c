/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes. The state is in them and, where the order is checked, each thread's own.
 */
#include "process/mutex.h"

#include <stdint.h>

#include "process/log.h"
#include "process/thread.h"

#ifdef NVS_CHECK_ORDER
static __thread uint32_t held; /* a bit for each place in the order */

static void note_locked(const struct nvs_mutex *mutex)
{
	enum nvs_order order = mutex->order;

	/* As a sanitizer's finding: the program ends, and its test fails. */
	if (held >> order) {
		nvs_log("a mutex of place %d is taken by who holds those of places %#x", order,
			held);
		__builtin_trap();
	}
	held |= 1u << order;
}

static void note_unlocked(const struct nvs_mutex *mutex)
{
	held &= ~(1u << mutex->order);
}
#else
static void note_locked(const struct nvs_mutex *mutex)
{
	(void)mutex;
}

static void note_unlocked(const struct nvs_mutex *mutex)
{
	(void)mutex;
}
#endif

void nvs_mutex_lock(struct nvs_mutex *mutex)
{
	nvs_cancel_off();
	note_locked(mutex);
	pthread_mutex_lock(&mutex->mutex);
}

void nvs_mutex_unlock(struct nvs_mutex *mutex)
{
	pthread_mutex_unlock(&mutex->mutex);
	note_unlocked(mutex);
	nvs_cancel_on();
}

struct nvs_mutex *nvs_mutex_begin(struct nvs_mutex *mutex)
{
	nvs_mutex_lock(mutex);
	return mutex;
}

void nvs_mutex_end(struct nvs_mutex *const *mutex)
{
	nvs_mutex_unlock(*mutex);
}

void nvs_mutex_wait(struct nvs_mutex *mutex)
{
	pthread_cond_wait(&mutex->changed, &mutex->mutex);
}

void nvs_mutex_changed(struct nvs_mutex *mutex)
{
	pthread_cond_broadcast(&mutex->changed);
}

void nvs_mutex_forked(struct nvs_mutex *mutex)
{
	mutex->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	mutex->changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
