/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that stands before NCCL, as profilers do: it adds 100 to the rank.
 */
#define _GNU_SOURCE
#include "nccl_calls.h"

#include <dlfcn.h>

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
	__typeof__(&ncclCommInitRank) next =
		(__typeof__(&ncclCommInitRank))dlsym(RTLD_NEXT, "ncclCommInitRank");

	return next(comm, nranks, id, rank + 100);
}
