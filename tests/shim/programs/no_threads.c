/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the thread of NVSHARE_TEST_THREAD, counted from 1, that the library begins can't be
 * had. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef int creator(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static _Atomic int begun;

static bool is_refused(const void *caller)
{
	const char *number = getenv("NVSHARE_TEST_THREAD");
	Dl_info object;

	return number && dladdr(caller, &object) && strstr(object.dli_fname, "libnvshare.so") &&
	       atomic_fetch_add(&begun, 1) + 1 == atoi(number);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
		   void *argument)
{
	creator *real = (creator *)dlsym(RTLD_NEXT, "pthread_create");

	if (is_refused(__builtin_return_address(0)))
		return EAGAIN;
	return real(thread, attributes, body, argument);
}
