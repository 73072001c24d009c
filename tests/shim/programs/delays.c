/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before the library: lets a thread stand still where it would only be by bad luck. Each
 * delay is used once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int (*real_lock)(pthread_mutex_t *mutex);
static int (*real_unlock)(pthread_mutex_t *mutex);
static ssize_t (*real_send)(int socket, const void *data, size_t bytes, int flags);
static _Atomic int writer; /* the thread that stands still behind its next wake-up; 0: none */
static _Atomic int sent;   /* it has sent it, and still holds a lock */
static _Atomic int locks;  /* the library's own threads stand still before so many; 0: none do */
static _Atomic bool standing;

/* In this thread, behind what wakes the client, without the lock that it takes for that. */
void delay_behind_wake(void);
/* In a thread of the library, before it takes a lock for the n-th time from now. */
void delay_before_lock(int n);
/* Whether a thread stands still. */
bool delay_stands(void);
void delay_ends(void);

__attribute__((constructor)) static void find_real(void)
{
	real_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	real_unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	real_send = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
}

static void stand(void)
{
	atomic_store(&standing, true);
	while (atomic_load(&standing))
		sched_yield();
}

ssize_t send(int socket, const void *data, size_t bytes, int flags)
{
	ssize_t written = real_send(socket, data, bytes, flags);
	int self = (int)syscall(SYS_gettid), thread = self;

	if (atomic_compare_exchange_strong(&writer, &self, 0))
		atomic_store(&sent, thread);
	return written;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int result = real_unlock(mutex);
	int self = atomic_load(&sent) ? (int)syscall(SYS_gettid) : -1;

	if (atomic_compare_exchange_strong(&sent, &self, 0))
		stand();
	return result;
}

static bool is_ours(void)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	return !strcmp(name, "nvshare");
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (atomic_load(&locks) && is_ours() && atomic_fetch_sub(&locks, 1) == 1)
		stand();
	return real_lock(mutex);
}

void delay_behind_wake(void)
{
	atomic_store(&writer, (int)syscall(SYS_gettid));
}

void delay_before_lock(int n)
{
	atomic_store(&locks, n);
}

bool delay_stands(void)
{
	return atomic_load(&standing);
}

void delay_ends(void)
{
	atomic_store(&standing, false);
}
