/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs know of NCCL's communicators.
 */
#ifndef NCCL_CALLS_H
#define NCCL_CALLS_H

#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR (-1)

typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef enum {
	ncclSuccess = 0,
	ncclInProgress = 7
} ncclResult_t;
typedef struct {
	int size;
} ncclConfig_t;

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
				    ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int count,
				      ncclUniqueId *ids, ncclConfig_t *config);
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices);
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm,
			   ncclConfig_t *config);
ncclResult_t ncclCommShrink(ncclComm_t parent, int *excluded, int count, ncclComm_t *comm,
			    ncclConfig_t *config, int flags);
ncclResult_t ncclCommGrow(ncclComm_t parent, int nranks, const ncclUniqueId *id, int rank,
			  ncclComm_t *comm, ncclConfig_t *config);
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
const char *nccl_saw(void);

#endif
