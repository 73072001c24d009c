/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a store, for store.c, store_file.c and pack.c. It is its client's, and its job's as
 * long as that is at work: the steps of the job change only what belongs to their number.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/swap/arena.h"
#include "memory/away/job.h"
#include "memory/away/sum.h"
#include "process/files.h"
#include "protocol/catalogue.h"

struct nvs_device;

struct nvs_store {
	_Atomic int stage; /* enum nvs_store_stage; of its client, and of the last thread */
	struct nvs_device *device;
	struct nvs_job job; /* its owner is the store */
	/* Brings a granule of `contents` back; it tells what nvs_store_read says. */
	const struct nvs_job_work *reads;
	struct nvs_content *contents; /* the granules that are away, or may be */
	uint32_t count;
	struct nvs_file file; /* it goes there, or the pack to be */
	_Atomic int end; /* enum nvs_store_end; of the last thread, until the client hears it */
	uint64_t key[NVS_SUM_KEYS]; /* of sums */

	/* In a file: */
	uint64_t *sums; /* of each */

	/* In a pack: */
	struct nvs_file catalogue;
	struct nvs_catalogue_entry *entries;
	const char *pack; /* all of it; NULL: none */
	uint64_t pack_bytes, pack_inode;
};
