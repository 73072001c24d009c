/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of ours in the program's process: their numbers are out of the program's way, and none is
 * inherited that nobody closes. Some programs close every number that they don't know, or put a
 * file of their own on it; so a number is used only while the file that we opened has it, and what
 * else has it is neither read nor written nor closed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nvs_file {
	int number; /* -1: none */
	/* What fstat(2) said of it; sockets have one each. */
	dev_t device;
	ino_t inode;
};

#define NVS_NO_FILE ((struct nvs_file){ .number = -1 })

/*
 * Between these, fork(2) waits: around opening or closing a file together with noting it where a
 * forked child finds it. Also the handlers before and after a fork. No other lock is taken in
 * between.
 */
void nvs_files_lock(void);
void nvs_files_unlock(void);

/*
 * Has the kernel make its table of the process's files long enough for those numbers. A process
 * with threads waits twenty milliseconds for that, one without does not. Opens nothing.
 */
void nvs_files_make_room(void);

/* An open file as one of ours, under a number that programs do not use; of -1 none. */
struct nvs_file nvs_file_of(int fd);
/* Its number; -1: there is none, or it is another file's now. Leaves errno alone. */
int nvs_file_number(const struct nvs_file *file);
/* It was there, and the program has closed it. */
bool nvs_file_lost(const struct nvs_file *file);
/* Closes it where it still is ours; none afterwards. With nvs_files_lock held. */
void nvs_file_close(struct nvs_file *file);
/* The same, and takes that lock. */
void nvs_file_end(struct nvs_file *file);
/*
 * Maps all of a file that others write to as well, but not in a forked child, which would be one
 * more that can change what only we may. NULL: not possible.
 */
void *nvs_file_map(int fd, uint64_t bytes);
/* The same of a part of it, in the place of what is mapped there; false: not possible. */
bool nvs_file_map_over(void *place, int fd, uint64_t offset, uint64_t bytes);
/*
 * Maps all of a memory file that nobody can write or cut any more, to be read. NULL: not possible,
 * or it is none.
 */
const void *nvs_file_map_sealed(int fd, uint64_t bytes);
/* Frees the memory of that part of a file of which no other process has a use. */
bool nvs_file_free(void *place, uint64_t bytes);
/* Lets go of what is mapped there; nothing else of the process gets its addresses. */
void nvs_file_unmap(void *place, uint64_t bytes);
