/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates threads that don't disturb the program, and keeps the program's own ones alive for a
 * while. The state is each thread's own; no lock.
 */
#define _GNU_SOURCE
#include "process/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define STACK_BYTES (1 << 20)

static __thread unsigned int offs;
static __thread int before;

/*
 * glibc takes a thread's copy of all static thread-local variables out of its stack, and refuses a
 * stack that they would fill: so their size is added. Only this function tells it; weak, because it
 * is not everywhere. musl adds it by itself.
 */
extern size_t __pthread_get_minstack(const pthread_attr_t *attributes) __attribute__((weak));

struct beginning {
	void *(*body)(void *argument);
	void *argument;
};

/*
 * It says its name itself: of a detached thread nobody else knows whether it has ended, and then
 * nothing is where its pthread_t leads to.
 */
static void *begin(void *data)
{
	struct beginning beginning = *(struct beginning *)data;

	free(data);
	prctl(PR_SET_NAME, "nvshare");
	return beginning.body(beginning.argument);
}

bool nvs_thread_create(void *(*body)(void *argument), void *argument)
{
	struct beginning *beginning = malloc(sizeof(*beginning));
	pthread_attr_t attributes;
	sigset_t all, mask;
	pthread_t thread;
	size_t size = STACK_BYTES;
	bool created;

	if (!beginning || pthread_attr_init(&attributes)) {
		free(beginning);
		return false;
	}
	*beginning = (struct beginning){ body, argument };
	if (__pthread_get_minstack)
		size += __pthread_get_minstack(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, size);
	/* It inherits the mask: the program's handlers are for the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	created = !pthread_create(&thread, &attributes, begin, beginning);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!created)
		free(beginning);
	pthread_attr_destroy(&attributes);
	return created;
}

void nvs_cancel_off(void)
{
	if (!offs++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
}

void nvs_cancel_on(void)
{
	if (!--offs)
		pthread_setcancelstate(before, NULL);
}

/*
 * glibc's. Weak, because the library must load under musl, which has none; neither is there a
 * driver, so nothing is lost.
 */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
			     void *object) __attribute__((weak));

bool nvs_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return __register_atfork && !__register_atfork(prepare, parent, child, NULL);
}
