/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of contexts, for those who wait for all of them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "gate/device.h"

struct nvs_context_end {
	/*
	 * The end of what was submitted; NULL: not made, or taken away because the context may end.
	 * Written by the device's thread that has pinned the context, or by one that made sure that
	 * nobody has.
	 */
	CUevent event;
	/*
	 * The event was recorded, or should be, and is not known to have completed. Written also
	 * when a context begins; whoever is first, nothing of that one runs yet.
	 */
	_Atomic bool running;
};

/*
 * A context is pinned while it is waited for, and nobody ends it meanwhile; while it may be ending
 * nobody pins it. Several threads may do either. Owned by contexts.c, but for the last two.
 */
struct nvs_context {
	struct nvs_context *next;
	_Atomic(CUcontext) context; /* NULL: not known (primary), or the entry is free */
	_Atomic int ordinal;
	_Atomic uint32_t life; /* 2 more after each end; odd: may be ending */
	bool primary;	       /* for good */
	bool ended;	       /* by one of the calls that go on */
	unsigned int attached; /* by cuCtxAttach */
	unsigned int pins;     /* threads that wait for it */
	unsigned int endings;  /* calls that go on and may end it */
	struct nvs_context_end ends[NVS_MAX_DEVICES]; /* by the device whose turn ends */
};

/*
 * Gives `after` back and pins the device's next context, or its first (`after` is NULL); the
 * primary one is among them, seen or not. NULL: no more. One that may be ending is waited for, or
 * passed over.
 */
struct nvs_context *nvs_context_next(const struct nvs_device *device, struct nvs_context *after,
				     bool wait);
/* Gives one back that nvs_context_next has pinned, without the next one. */
void nvs_context_unpin(struct nvs_context *entry);
/* The pinned context itself, until it is given back; false: it has ended, or has not begun. */
bool nvs_context_take(const struct nvs_context *entry, CUcontext *context);
void nvs_context_give_back(const struct nvs_context *entry);
