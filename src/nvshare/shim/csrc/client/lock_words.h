/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words around the lock's state: what a frame from the scheduler means, what states are called.
 * Pure.
 */
#ifndef NVSHARE_LOCK_WORDS_H
#define NVSHARE_LOCK_WORDS_H

#include "client/lock_types.h"

/* cdef begin */
/* What a frame from the scheduler means: BAD_FRAME when it is none that a scheduler may send. */
struct nvs_lock_event nvs_lock_event_of(const struct nvs_frame *frame);
const char *nvs_link_name(int link);
const char *nvs_lock_name(int lock);
const char *nvs_lock_event_name(int kind);
/* cdef end */

#endif
