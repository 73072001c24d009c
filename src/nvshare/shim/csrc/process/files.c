/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the lock that keeps fork away while a file is open of which no record knows. CLOEXEC serves
 * exec.
 */
#define _GNU_SOURCE
#include "process/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/ends.h"
#include "process/mutex.h"

#define FIRST_FD 256 /* programs expect their own files to get small numbers */

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_FILES);

void nvs_files_lock(void)
{
	nvs_mutex_lock(&lock);
}

void nvs_files_unlock(void)
{
	nvs_mutex_unlock(&lock);
}

void nvs_files_make_room(void)
{
	NVS_KEEP_ERRNO;

	/*
	 * The kernel makes the table longer before it looks at the first number, which is no
	 * file's: so nothing is opened that another thread's fork could inherit.
	 */
	(void)dup3(-1, FIRST_FD, O_CLOEXEC);
}

struct nvs_file nvs_file_of(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
	struct stat status;

	if (moved >= 0) {
		close(fd);
		fd = moved;
	}
	if (fd < 0 || fstat(fd, &status))
		return NVS_NO_FILE;
	return (struct nvs_file){ .number = fd, .device = status.st_dev, .inode = status.st_ino };
}

int nvs_file_number(const struct nvs_file *file)
{
	NVS_KEEP_ERRNO;
	int number = file->number;
	struct stat now;

	if (number >= 0 &&
	    (fstat(number, &now) || now.st_dev != file->device || now.st_ino != file->inode))
		number = -1;
	return number;
}

bool nvs_file_lost(const struct nvs_file *file)
{
	return file->number >= 0 && nvs_file_number(file) < 0;
}

void nvs_file_close(struct nvs_file *file)
{
	int number = nvs_file_number(file);

	if (number >= 0)
		close(number);
	*file = NVS_NO_FILE;
}

void nvs_file_end(struct nvs_file *file)
{
	NVS_HOLD(&lock);
	nvs_file_close(file);
}

/* At `place`, or anywhere if that is NULL; what is mapped there is not any more, also on failure.
 */
static void *map(void *place, int fd, uint64_t offset, uint64_t bytes, int access, int flags)
{
	void *base;

	NVS_HOLD(&lock);
	base = mmap(place, bytes, access, flags | (place ? MAP_FIXED : 0), fd, (off_t)offset);
	if (base == MAP_FAILED)
		return NULL;
	if (!madvise(base, bytes, MADV_DONTFORK))
		return base;
	if (place)
		nvs_file_unmap(place, bytes);
	else
		munmap(base, bytes);
	return NULL;
}

void *nvs_file_map(int fd, uint64_t bytes)
{
	return map(NULL, fd, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
}

bool nvs_file_map_over(void *place, int fd, uint64_t offset, uint64_t bytes)
{
	return map(place, fd, offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED) != NULL;
}

/* Kernels before 6.7 let nobody share what is sealed; private pages are the file's, too. */
const void *nvs_file_map_sealed(int fd, uint64_t bytes)
{
	int seals = fcntl(fd, F_GET_SEALS), wanted = F_SEAL_WRITE | F_SEAL_SHRINK;

	if (seals < 0 || (seals & wanted) != wanted)
		return NULL;
	return map(NULL, fd, 0, bytes, PROT_READ, MAP_PRIVATE);
}

/* What the program has had locked would stay. */
bool nvs_file_free(void *place, uint64_t bytes)
{
	return !munlock(place, bytes) && !madvise(place, bytes, MADV_REMOVE);
}

void nvs_file_unmap(void *place, uint64_t bytes)
{
	mmap(place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
	     0);
	madvise(place, bytes, MADV_DONTFORK);
}
