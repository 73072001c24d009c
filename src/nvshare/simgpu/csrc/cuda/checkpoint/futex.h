/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a word in memory that processes may share. errno stays as it is. */
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns when somebody wakes the word, it is not `value`, or so long has passed; 0: no end. */
static inline void sim_futex_wait(_Atomic uint32_t *word, uint32_t value, long ns)
{
	struct timespec timeout = { .tv_nsec = ns };
	int before = errno;

	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, ns ? &timeout : NULL, NULL, 0);
	errno = before;
}

static inline void sim_futex_wake(_Atomic uint32_t *word)
{
	int before = errno;

	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	errno = before;
}
