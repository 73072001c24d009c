/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of ours in the program's process, what must not happen to the program's own ones while
 * they are in our hands, and what happens around fork(2).
 */
#pragma once

#include <stdbool.h>

/*
 * Runs `body` in a detached thread that takes none of the program's signals; false: there is none.
 */
bool nvs_thread_create(void *(*body)(void *argument), void *argument);

/*
 * Between these, pthread_cancel does not end the calling thread: while it holds what others wait
 * for, and where we sleep or write in a call that the driver would not sleep or write in. Pairs may
 * be nested, also over functions.
 */
void nvs_cancel_off(void);
void nvs_cancel_on(void);

/* Like pthread_atfork, without its static part in libc; NULL: nothing. False: not possible. */
bool nvs_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
