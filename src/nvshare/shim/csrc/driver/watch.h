/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether objects are opened in ways by which they reach a driver past the hooks. Nothing of ours
 * runs when an open returns, so what it brought is looked at later.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* There is something to look for; read by loader.S. */
extern _Atomic int nvs_watching __attribute__((visibility("hidden")));

/*
 * RTLD_DEEPBIND is used: the driver is redirected as soon as there is one, and every NCCL. If it is
 * not `complete`, because such objects may find the loader's functions without us, that is said
 * then.
 */
void nvs_watch_for_driver(bool complete);
/* dlmopen is used: a driver in another namespace is told of. */
void nvs_watch_for_second_driver(void);
/* Looks at what was loaded since the last look. */
void nvs_watch_look(void);
