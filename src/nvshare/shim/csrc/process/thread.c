/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates threads that don't disturb the program. No state, no lock.
 */
#define _GNU_SOURCE
#include "process/thread.h"

#include <pthread.h>
#include <signal.h>

#define STACK_BYTES (1 << 20)

bool nvs_thread_create(void *(*body)(void *argument), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	bool created;

	if (pthread_attr_init(&attributes))
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	/* It inherits the mask: the program's handlers are for the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	created = !pthread_create(&thread, &attributes, body, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (created)
		pthread_setname_np(thread, "nvshare");
	pthread_attr_destroy(&attributes);
	return created;
}
