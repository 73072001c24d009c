/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that threads of this process sleep on. No state; errno stays as it was.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while the word is what was seen; UINT64_MAX: for ever. The errno, 0: woken. */
int nvs_futex_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);
/* Wakes so many that sleep on a word that has changed; it may be gone by now. */
void nvs_futex_wake(_Atomic uint32_t *word, int sleepers);
