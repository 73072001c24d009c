/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory into a file or out of it. No state; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvs_file;

/* How it failed: a number of errno, or one of these. */
enum nvs_transfer_failure {
	NVS_TRANSFERRED = 0,
	NVS_TRANSFER_FILE_ENDS = -1,
	NVS_TRANSFER_WRONG_SUM = -2,
	NVS_TRANSFER_NO_FILE = -3, /* the program has closed it */
	NVS_TRANSFER_CANCELLED = -4,
	NVS_TRANSFER_NOTHING = -5, /* there was nothing to let go of */
};

/* So many bytes at `place` are written to an offset of the file, or read from there. */
int nvs_transfer_bytes(const struct nvs_file *file, bool writes, void *place, uint64_t bytes,
		       uint64_t offset);
/* The granule at `place` is the `index`th of the file: it is written there, or read from there. */
int nvs_transfer(const struct nvs_file *file, bool writes, char *place, uint32_t index);
/* In words; none where it did not. */
void nvs_transfer_explain(int failure, char *why, size_t size);
