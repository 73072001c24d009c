/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's functions that make and end communicators. They are found as the driver's are: callers
 * outside find ours first, or are given ours where they look one up.
 *
 * A process may have several NCCLs, and a communicator belongs to the one that made it. So what is
 * looked up in an object leads to an entry of ours that stands for just that object; and the
 * exported functions, which objects are linked with, go on to what the caller would have been
 * linked with. An NCCL that is linked into an object statically and hides its names is not seen.
 */
#pragma once

/* What is passed by value: its size and alignment are those of ncclUniqueId. */
struct nvs_nccl_id {
	char bytes[128];
};

/* Results; only these mean something here. */
#define NVS_NCCL_SUCCESS 0
#define NVS_NCCL_SYSTEM_ERROR 2
#define NVS_NCCL_IN_PROGRESS 7

/* ncclComm_t and ncclConfig_t * are pointers to what only NCCL knows. */
#define NVS_NCCL_CALLS(CALL)                                                                 \
	CALL(ncclCommInitRank, (void **comm, int nranks, struct nvs_nccl_id id, int rank),   \
	     (comm, nranks, id, rank))                                                       \
	CALL(ncclCommInitRankConfig,                                                         \
	     (void **comm, int nranks, struct nvs_nccl_id id, int rank, void *config),       \
	     (comm, nranks, id, rank, config))                                               \
	CALL(ncclCommInitRankScalable,                                                       \
	     (void **comm, int nranks, int rank, int count, struct nvs_nccl_id *ids,         \
	      void *config),                                                                 \
	     (comm, nranks, rank, count, ids, config))                                       \
	CALL(ncclCommInitAll, (void **comms, int count, const int *devices),                 \
	     (comms, count, devices))                                                        \
	CALL(ncclCommSplit, (void *parent, int color, int key, void **comm, void *config),   \
	     (parent, color, key, comm, config))                                             \
	CALL(ncclCommShrink,                                                                 \
	     (void *parent, int *excluded, int count, void **comm, void *config, int flags), \
	     (parent, excluded, count, comm, config, flags))                                 \
	CALL(ncclCommGrow,                                                                   \
	     (void *parent, int nranks, const struct nvs_nccl_id *id, int rank, void **comm, \
	      void *config),                                                                 \
	     (parent, nranks, id, rank, comm, config))                                       \
	CALL(ncclCommDestroy, (void *comm), (comm))                                          \
	CALL(ncclCommAbort, (void *comm), (comm))

#define NVS_NCCL_REST(...) , __VA_ARGS__

/*
 * The bodies, in hooks/: nvs_nccl_SYMBOL is given the function of the NCCL that is meant, and then
 * what the program gave.
 */
#define NVS_NCCL_BODY(symbol, parameters, arguments)     \
	typedef int nvs_nccl_##symbol##_call parameters; \
	int nvs_nccl_##symbol(nvs_nccl_##symbol##_call *real NVS_NCCL_REST parameters);
NVS_NCCL_CALLS(NVS_NCCL_BODY)
#undef NVS_NCCL_BODY

/* Any function of the NCCL that `function` is of; NULL: it has none of that name. */
void *nvs_nccl_beside(const void *function, const char *name);

/* For the dynamic loader's functions. What we export of that name; NULL: nothing. */
const void *nvs_nccl_exported(const char *name);
/*
 * What the object with the code at `caller` would find of that name if we exported nothing; NULL:
 * nothing. Takes the dynamic loader's lock.
 */
void *nvs_nccl_seen_by(const void *caller, const char *name);
/* The entry that stands for a function of an NCCL; the function itself when there is none left. */
void *nvs_nccl_entry(const char *name, void *function);
/* The entries become what the loader finds in every NCCL that is loaded: see nvs_driver_redirect.
 */
void nvs_nccl_redirect(void);
