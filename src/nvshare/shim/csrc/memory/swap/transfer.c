/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to the file and back: no more of the memory than one granule, and nothing of whose it is.
 */
#define _GNU_SOURCE
#include "memory/swap/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "memory/swap/chunk.h"
#include "process/ends.h"
#include "process/files.h"

/* A program that closes all files may put its own in the place of this one. */
int nvs_transfer(const struct nvs_file *file, bool writes, char *place, uint32_t index)
{
	off_t offset = (off_t)index * NVS_GRANULE_BYTES;
	ssize_t went;

	for (size_t done = 0; done < NVS_GRANULE_BYTES; done += went > 0 ? (size_t)went : 0) {
		size_t left = NVS_GRANULE_BYTES - done;
		int number = nvs_file_number(file);

		if (number < 0)
			return NVS_TRANSFER_NO_FILE;
		went = writes ? pwrite(number, place + done, left, offset + (off_t)done)
			      : pread(number, place + done, left, offset + (off_t)done);
		if (went < 0 && errno != EINTR)
			return errno;
		if (!went)
			return NVS_TRANSFER_FILE_ENDS;
	}
	return NVS_TRANSFERRED;
}

void nvs_transfer_explain(int failure, char *why, size_t size)
{
	NVS_KEEP_ERRNO;

	errno = failure;
	if (failure == NVS_TRANSFER_FILE_ENDS)
		snprintf(why, size, "it ends too early");
	else if (failure == NVS_TRANSFER_WRONG_SUM)
		snprintf(why, size, "it has other contents than were written");
	else if (failure == NVS_TRANSFER_NO_FILE)
		snprintf(why, size, "this program closed it");
	else
		snprintf(why, size, "%m");
}
