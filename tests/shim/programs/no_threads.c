/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the threads of NVSHARE_TEST_THREADS ("2 4": from the second to the fourth), counted
 * from 1, that the library begins can't be had. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int creator(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static _Atomic int begun;

static bool is_refused(const void *caller)
{
	const char *numbers = getenv("NVSHARE_TEST_THREADS");
	Dl_info object;
	int first, last, number;

	if (!numbers || sscanf(numbers, "%d %d", &first, &last) != 2 || !dladdr(caller, &object) ||
	    !strstr(object.dli_fname, "libnvshare.so"))
		return false;
	number = atomic_fetch_add(&begun, 1) + 1;
	return first <= number && number <= last;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
		   void *argument)
{
	creator *real = (creator *)dlsym(RTLD_NEXT, "pthread_create");

	if (is_refused(__builtin_return_address(0)))
		return EAGAIN;
	return real(thread, attributes, body, argument);
}
