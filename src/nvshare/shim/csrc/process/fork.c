/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_atfork without its static part in libc. No state, no lock.
 */
#include "process/fork.h"

#include <stddef.h>

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
