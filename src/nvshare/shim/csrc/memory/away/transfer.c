/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to the file and back: nothing of whose the memory is.
 */
#define _GNU_SOURCE
#include "memory/away/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "memory/swap/chunk.h"
#include "process/ends.h"
#include "process/files.h"

/* A program that closes all files may put its own in the place of this one. */
int nvs_transfer_bytes(const struct nvs_file *file, bool writes, void *memory, uint64_t bytes,
		       uint64_t offset)
{
	char *place = memory;
	ssize_t went;

	for (uint64_t done = 0; done < bytes; done += went > 0 ? (uint64_t)went : 0) {
		int number = nvs_file_number(file);

		if (number < 0)
			return NVS_TRANSFER_NO_FILE;
		went = writes ? pwrite(number, place + done, bytes - done, (off_t)(offset + done))
			      : pread(number, place + done, bytes - done, (off_t)(offset + done));
		if (went < 0 && errno != EINTR)
			return errno;
		if (!went)
			return NVS_TRANSFER_FILE_ENDS;
	}
	return NVS_TRANSFERRED;
}

int nvs_transfer(const struct nvs_file *file, bool writes, char *place, uint32_t index)
{
	return nvs_transfer_bytes(file, writes, place, NVS_GRANULE_BYTES,
				  (uint64_t)index * NVS_GRANULE_BYTES);
}

void nvs_transfer_explain(int failure, char *why, size_t size)
{
	NVS_KEEP_ERRNO;

	errno = failure;
	if (failure == NVS_TRANSFERRED)
		*why = 0;
	else if (failure == NVS_TRANSFER_FILE_ENDS)
		snprintf(why, size, "it ends too early");
	else if (failure == NVS_TRANSFER_WRONG_SUM)
		snprintf(why, size, "it has other contents than were written");
	else if (failure == NVS_TRANSFER_NO_FILE)
		snprintf(why, size, "this program closed it");
	else if (failure == NVS_TRANSFER_CANCELLED)
		snprintf(why, size, "it is to wake");
	else if (failure == NVS_TRANSFER_NOTHING)
		snprintf(why, size, "no block of it is equal");
	else
		snprintf(why, size, "%m");
}
