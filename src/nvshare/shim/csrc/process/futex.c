/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No state.
 */
#define _GNU_SOURCE
#include "process/ends.h"
#include "process/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int nvs_futex_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
	struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / 1000000000),
				    .tv_nsec = (long)(timeout_ns % 1000000000) };
	NVS_KEEP_ERRNO;
	int error = 0;

	if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen,
		    timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 0) < 0)
		error = errno;
	return error;
}

void nvs_futex_wake(_Atomic uint32_t *word, int sleepers)
{
	NVS_KEEP_ERRNO;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}
