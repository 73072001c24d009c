/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of ours in the program's process.
 */
#ifndef NVSHARE_THREAD_H
#define NVSHARE_THREAD_H

#include <stdbool.h>

/*
 * Runs `body` in a detached thread that takes none of the program's signals; false: there is none.
 */
bool nvs_thread_create(void *(*body)(void *argument), void *argument);

#endif
