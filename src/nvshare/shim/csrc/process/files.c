/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the lock that keeps fork away while a file is open of which no record knows. CLOEXEC serves
 * exec.
 */
#define _GNU_SOURCE
#include "process/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#define FIRST_FD 256 /* programs expect their own files to get small numbers */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void nvs_files_lock(void)
{
	pthread_mutex_lock(&lock);
}

void nvs_files_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

int nvs_file_move(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);

	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}
