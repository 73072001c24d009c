/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One granule of host memory into a file or out of it. No state; any thread.
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
};

/* The granule at `place` is the `index`th of the file: it is written there, or read from there. */
int nvs_transfer(const struct nvs_file *file, bool writes, char *place, uint32_t index);
/* In words. */
void nvs_transfer_explain(int failure, char *why, size_t size);
