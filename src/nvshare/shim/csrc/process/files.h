/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of ours in the program's process: their numbers are out of the program's way, and none is
 * inherited that nobody closes.
 */
#ifndef NVSHARE_FILES_H
#define NVSHARE_FILES_H

/*
 * Between these, fork(2) waits: around opening or closing a file together with noting it where a
 * forked child finds it. Also the handlers before and after a fork.
 */
void nvs_files_lock(void);
void nvs_files_unlock(void);
/* The same file under a number that programs do not use; -1 for -1. */
int nvs_file_move(int fd);

#endif
