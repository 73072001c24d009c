/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NCCL that makes communicators of nothing and says what it was called with: nccl_saw() is the
 * last call, with its arguments; of a unique id, it is every byte's sum, and whether the bytes
 * count up as the programs make them. NCCL_RESULT is what every call then returns. With NCCL_SAME
 * all communicators have one handle.
 */
#define _GNU_SOURCE
#include "nccl_calls.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef NAME
#define NAME "nccl"
#endif

static char saw[256];

EXPORT const char *nccl_saw(void)
{
	return saw;
}

static ncclResult_t made(ncclComm_t *comm)
{
	const char *result = getenv("NCCL_RESULT");

	if (result && atoi(result) != ncclInProgress)
		return atoi(result);
	*comm = getenv("NCCL_SAME") ? saw : malloc(1);
	return result ? atoi(result) : ncclSuccess;
}

static int sum_of(const ncclUniqueId *id)
{
	int sum = 0;

	for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++)
		sum += (unsigned char)id->internal[i];
	return sum;
}

#define SAW(...) snprintf(saw, sizeof(saw), NAME " " __VA_ARGS__)

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
	SAW("InitRank %d %d %d", nranks, sum_of(&id), rank);
	return made(comm);
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
					   ncclConfig_t *config)
{
	SAW("InitRankConfig %d %d %d %d", nranks, sum_of(&id), rank, config->size);
	return made(comm);
}

EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int count,
					     ncclUniqueId *ids, ncclConfig_t *config)
{
	SAW("InitRankScalable %d %d %d %d %d", nranks, rank, count, sum_of(ids), config->size);
	return made(comm);
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
	ncclResult_t result = ncclSuccess;
	ncclUniqueId id = { "made up" };

	/* By a call from outside, which leads to whoever comes first. */
	for (int i = 0; i < count; i++)
		result = ncclCommInitRank(&comms[i], count, id, i);
	SAW("InitAll %d %d", count, devices ? devices[count - 1] : -1);
	return result;
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm,
				  ncclConfig_t *config)
{
	SAW("Split %d %d %d %d", parent != NULL, color, key, config->size);
	*comm = NULL;
	return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : made(comm);
}

EXPORT ncclResult_t ncclCommShrink(ncclComm_t parent, int *excluded, int count, ncclComm_t *comm,
				   ncclConfig_t *config, int flags)
{
	SAW("Shrink %d %d %d %d %d", parent != NULL, excluded[0], count, config->size, flags);
	return made(comm);
}

EXPORT ncclResult_t ncclCommGrow(ncclComm_t parent, int nranks, const ncclUniqueId *id, int rank,
				 ncclComm_t *comm, ncclConfig_t *config)
{
	SAW("Grow %d %d %d %d %d", parent != NULL, nranks, id ? sum_of(id) : -1, rank,
	    config->size);
	return made(comm);
}

EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device)
{
	*device = comm ? 1 : -1;
	return ncclSuccess;
}

static ncclResult_t ended(void)
{
	const char *result = getenv("NCCL_RESULT");

	return result ? atoi(result) : ncclSuccess;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	SAW("Destroy %d", comm != NULL);
	return ended();
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	SAW("Abort %d", comm != NULL);
	return ended();
}
