/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's communicators tie the processes that have one: a kernel of one rank waits for those of all
 * others. Before the call that makes one goes on, the scheduler knows of the tie.
 *
 * What all ranks know before that call is the key: the unique id, or for what is made of another
 * communicator that one's key with the number of the call. ncclCommFinalize is no end: what it
 * waits for may still run, and ncclCommDestroy or ncclCommAbort follows. A communicator that fails
 * in the background is aborted by the program. No state but the depth of calls: what NCCL calls of
 * itself inside one of these is part of that one.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver/driver.h"
#include "driver/nccl.h"
#include "gate/device.h"
#include "gate/door.h"
#include "process/clock.h"
#include "process/digest.h"
#include "ties/tied.h"
#include "ties/ties.h"

#define NO_COLOR (-1)

static __thread unsigned int depth;

/* One rank's part of a communicator that is being made. */
struct member {
	struct nvs_device *device; /* NULL: not known yet */
	uint32_t size;
	uint8_t key[NVS_WIRE_KEY_BYTES];
	bool told;
};

/* The calling thread's device; -1: the runtime has not made a context current yet. */
static int current_ordinal(void)
{
	CUdevice_v1 ordinal;
	bool current = NVS_BEHIND_DOOR(NVS_CALL(cuCtxGetDevice, &ordinal)) == CUDA_SUCCESS;

	return current ? ordinal : -1;
}

static struct nvs_device *use(int ordinal)
{
	struct nvs_device *device;

	if (nvs_door_enter() != CUDA_SUCCESS)
		return NULL;
	device = nvs_device_use(ordinal);
	nvs_door_leave();
	return device;
}

static void tell(struct member *member)
{
	member->told = member->device &&
		       nvs_tie(member->device, member->key, NVS_TIE_COLLECTIVE, member->size);
}

static void wait(const struct member *member)
{
	if (member->told)
		nvs_tie_wait(member->device, member->key, NVS_TIE_COLLECTIVE);
}

static struct member join(int ordinal, uint32_t size, const void *data, size_t bytes)
{
	struct member member = { .device = use(ordinal), .size = size };

	nvs_digest(member.key, data, bytes);
	tell(&member);
	wait(&member);
	return member;
}

/* Or will be; the same of an end. */
static bool is_made(int result)
{
	return result == NVS_NCCL_SUCCESS || result == NVS_NCCL_IN_PROGRESS;
}

/*
 * A context may have been made only by NCCL itself, for the device that the runtime had in mind;
 * NCCL says which one.
 */
static void join_late(struct member *member, const void *real, void *comm)
{
	int (*device_of)(void *, int *) =
		(int (*)(void *, int *))nvs_nccl_beside(real, "ncclCommCuDevice");
	int ordinal;

	if (member->device || !device_of || device_of(comm, &ordinal) != NVS_NCCL_SUCCESS)
		return;
	member->device = use(ordinal);
	tell(member);
	wait(member);
}

/* The call has ended. Who is not told yet which handle it is keeps the tie. */
static void made(struct member *member, int result, const void *real, void *comm)
{
	struct nvs_tied tied = { .kind = NVS_TIED_COMMUNICATOR,
				 .handle = (uintptr_t)comm,
				 .tie = NVS_TIE_COLLECTIVE,
				 .size = member->size };

	if (!is_made(result)) {
		if (member->told)
			nvs_untie(member->device, member->key, NVS_TIE_COLLECTIVE);
		return;
	}
	if (!comm)
		return;
	join_late(member, real, comm);
	if (!member->told)
		return;
	tied.device = member->device;
	memcpy(tied.key, member->key, sizeof(tied.key));
	nvs_tied_add(&tied);
}

/* What `*comm` was of an older communicator there ended without us. */
static void made_first(struct member *member, int result, const void *real, void **comm)
{
	if (is_made(result) && comm && *comm)
		nvs_tied_end(nvs_tied_take(NVS_TIED_COMMUNICATOR, (uintptr_t)*comm, true), true);
	made(member, result, real, comm ? *comm : NULL);
}

/* Calls NCCL in `call`, with what is needed around that only once. */
#define ONCE(real, arguments)                         \
	do {                                          \
		if (!real)                            \
			return NVS_NCCL_SYSTEM_ERROR; \
		if (depth)                            \
			return real arguments;        \
	} while (0)

#define CALL_NCCL(result, real, arguments) \
	do {                               \
		depth++;                   \
		result = real arguments;   \
		depth--;                   \
	} while (0)

#define INIT(symbol, id, arguments, ...)                                               \
	int nvs_nccl_##symbol(nvs_nccl_##symbol##_call *real, __VA_ARGS__)             \
	{                                                                              \
		struct member member;                                                  \
		int result;                                                            \
                                                                                       \
		ONCE(real, arguments);                                                 \
		member = join(current_ordinal(), (uint32_t)nranks, id, sizeof(*(id))); \
		CALL_NCCL(result, real, arguments);                                    \
		made_first(&member, result, (const void *)real, comm);                 \
		return result;                                                         \
	}

INIT(ncclCommInitRank, &id, (comm, nranks, id, rank), void **comm, int nranks,
     struct nvs_nccl_id id, int rank)
INIT(ncclCommInitRankConfig, &id, (comm, nranks, id, rank, config), void **comm, int nranks,
     struct nvs_nccl_id id, int rank, void *config)

int nvs_nccl_ncclCommInitRankScalable(nvs_nccl_ncclCommInitRankScalable_call *real, void **comm,
				      int nranks, int rank, int count, struct nvs_nccl_id *ids,
				      void *config)
{
	struct member member = { 0 };
	int result;

	ONCE(real, (comm, nranks, rank, count, ids, config));
	if (count > 0 && ids)
		member = join(current_ordinal(), (uint32_t)nranks, ids, sizeof(*ids));
	CALL_NCCL(result, real, (comm, nranks, rank, count, ids, config));
	if (count > 0 && ids)
		made_first(&member, result, (const void *)real, comm);
	return result;
}

/* All ranks are this process's: nobody else has to know the key, and nobody else may have it. */
static void make_key(uint8_t key[NVS_WIRE_KEY_BYTES], const void *place)
{
	static _Atomic uint64_t made_before;
	const struct {
		uint64_t number, now, process;
		const void *place;
	} seed = { made_before++, nvs_now_ns(), (uint64_t)getpid(), place };

	nvs_digest(key, &seed, sizeof(seed));
}

int nvs_nccl_ncclCommInitAll(nvs_nccl_ncclCommInitAll_call *real, void **comms, int count,
			     const int *devices)
{
	struct member members[NVS_MAX_DEVICES] = { 0 };
	int known = comms && count > 0 && count <= NVS_MAX_DEVICES ? count : 0, result;

	ONCE(real, (comms, count, devices));
	for (int i = 0; i < known; i++) {
		members[i].device = use(devices ? devices[i] : i);
		members[i].size = (uint32_t)count;
		if (i)
			memcpy(members[i].key, members[0].key, sizeof(members[i].key));
		else
			make_key(members[i].key, comms);
		tell(&members[i]);
	}
	for (int i = 0; i < known; i++)
		wait(&members[i]);
	CALL_NCCL(result, real, (comms, count, devices));
	for (int i = 0; i < known; i++)
		made_first(&members[i], result, (const void *)real, &comms[i]);
	return result;
}

/* What a communicator that is made of another one is known by. */
struct descent {
	uint8_t parent[NVS_WIRE_KEY_BYTES];
	uint32_t how; /* enum nvs_tied_child */
	uint32_t number;
	int32_t color;
	uint8_t excluded[NVS_WIRE_KEY_BYTES];
};

/* Joins those that were made of the parent by the same call. */
static struct member join_child(void *parent, enum nvs_tied_child how, int color,
				const uint8_t *excluded, uint32_t fewer)
{
	struct member member = { 0 };
	struct nvs_tied known;
	struct descent descent;

	if (!nvs_tied_child((uintptr_t)parent, how, &known) || color == NO_COLOR)
		return member;
	memset(&descent, 0, sizeof(descent));
	memcpy(descent.parent, known.key, sizeof(descent.parent));
	descent.how = how;
	descent.number = known.children[how];
	descent.color = color;
	if (excluded)
		memcpy(descent.excluded, excluded, sizeof(descent.excluded));
	if (fewer && known.size > fewer)
		member.size = known.size - fewer;
	member.device = known.device;
	nvs_digest(member.key, &descent, sizeof(descent));
	tell(&member);
	wait(&member);
	return member;
}

/* Ranks without a color make no communicator, but the call counts for them too. */
int nvs_nccl_ncclCommSplit(nvs_nccl_ncclCommSplit_call *real, void *parent, int color, int key,
			   void **comm, void *config)
{
	struct member member;
	int result;

	ONCE(real, (parent, color, key, comm, config));
	member = join_child(parent, NVS_TIED_SPLIT, color, NULL, 0);
	CALL_NCCL(result, real, (parent, color, key, comm, config));
	if (member.device)
		made_first(&member, result, (const void *)real, comm);
	return result;
}

/* The ranks that are left out don't call, and may be named in any order. */
int nvs_nccl_ncclCommShrink(nvs_nccl_ncclCommShrink_call *real, void *parent, int *excluded,
			    int count, void **comm, void *config, int flags)
{
	uint8_t all[NVS_WIRE_KEY_BYTES] = { 0 }, one[NVS_WIRE_KEY_BYTES];
	struct member member;
	int result;

	ONCE(real, (parent, excluded, count, comm, config, flags));
	for (int i = 0; excluded && i < count; i++) {
		nvs_digest(one, &excluded[i], sizeof(excluded[i]));
		for (size_t at = 0; at < sizeof(all); at++)
			all[at] ^= one[at];
	}
	member = join_child(parent, NVS_TIED_SHRUNK, 0, all, count > 0 ? (uint32_t)count : 0);
	CALL_NCCL(result, real, (parent, excluded, count, comm, config, flags));
	if (member.device)
		made_first(&member, result, (const void *)real, comm);
	return result;
}

/*
 * New ranks know the id alone, and old ones what they come from alone; but one of the old ones,
 * which has made the id, knows both, and ties them all by saying both. How many there are of each
 * is not known.
 */
int nvs_nccl_ncclCommGrow(nvs_nccl_ncclCommGrow_call *real, void *parent, int nranks,
			  const struct nvs_nccl_id *id, int rank, void **comm, void *config)
{
	struct member old = { 0 }, new = { 0 };
	int result;

	ONCE(real, (parent, nranks, id, rank, comm, config));
	if (parent)
		old = join_child(parent, NVS_TIED_GROWN, 0, NULL, 0);
	if (id)
		new = join(old.device ? old.device->ordinal : current_ordinal(), 0, id,
			   sizeof(*id));
	CALL_NCCL(result, real, (parent, nranks, id, rank, comm, config));
	if (old.device)
		made_first(&old, result, (const void *)real, comm);
	if (id && old.device)
		made(&new, result, (const void *)real, comm ? *comm : NULL);
	else if (id)
		made_first(&new, result, (const void *)real, comm);
	return result;
}

#define END(symbol)                                                                 \
	int nvs_nccl_##symbol(nvs_nccl_##symbol##_call *real, void *comm)           \
	{                                                                           \
		struct nvs_tied *ties;                                              \
		int result;                                                         \
                                                                                    \
		ONCE(real, (comm));                                                 \
		ties = nvs_tied_take(NVS_TIED_COMMUNICATOR, (uintptr_t)comm, true); \
		CALL_NCCL(result, real, (comm));                                    \
		nvs_tied_end(ties, is_made(result));                                \
		return result;                                                      \
	}

END(ncclCommDestroy)
END(ncclCommAbort)
