/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must happen around fork(2).
 */
#ifndef NVSHARE_FORK_H
#define NVSHARE_FORK_H

#include <stdbool.h>

/* Like pthread_atfork; NULL: nothing. False: not possible. */
bool nvs_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

#endif
