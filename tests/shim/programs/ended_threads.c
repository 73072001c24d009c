/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates threads of the library's that end at once, beside threads of its own with so large stacks
 * that the C library unmaps those of ended ones. Says "done".
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "process/thread.h"

#define CREATED 5000
#define STACK_BYTES (64 << 20)

static void *end(void *unused)
{
	return unused;
}

static void *create_own(void *unused)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (;;)
		if (!pthread_create(&thread, &attributes, end, NULL))
			pthread_join(thread, NULL);
	return unused;
}

int main(void)
{
	pthread_t own;
	int created = 0;

	if (pthread_create(&own, NULL, create_own, NULL))
		return 1;
	while (created < CREATED)
		created += nvs_thread_create(end, NULL);
	puts("done");
	return 0;
}
