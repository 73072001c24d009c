/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before the library: reading and writing at a place of a file stands still while the file
 * that HELD_FILES names is there.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void stand(void)
{
	const char *name = getenv("HELD_FILES");

	while (name && !access(name, F_OK))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
	stand();
	return syscall(SYS_pread64, fd, data, bytes, offset);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	stand();
	return syscall(SYS_pwrite64, fd, data, bytes, offset);
}
