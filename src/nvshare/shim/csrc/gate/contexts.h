/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contexts of this process, with their devices: what a drain must synchronize.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

struct nvs_context;

/* A context was made. */
void nvs_context_created(CUcontext context, int ordinal);
/* A device's primary context has this handle: they come and go, mostly at the same address. */
void nvs_context_primary_seen(CUcontext context, int ordinal);
/*
 * `context`, which is current in the calling thread, is known from here on, whoever made it, and
 * its device is used.
 */
void nvs_context_note(CUcontext context);
/* The same for whatever is current. */
void nvs_context_note_current(void);
/* cuCtxAttach took the context once more. */
void nvs_context_attached(CUcontext context);

/*
 * Before a call that may end a context: waits until nobody waits for it or asks about its events.
 * Nobody begins to, and the thread is not cancelled, until nvs_context_ended is given what this
 * returned.
 */
struct nvs_context *nvs_context_ending(CUcontext context);
/* The same for a device's primary context, whether it was seen or not. */
struct nvs_context *nvs_context_primary_ending(int ordinal);
/*
 * Around a call that may begin a device's primary context: nobody ends it meanwhile, and whoever is
 * ending it has done all that follows from that. So the new one, which mostly has the address of
 * the old one, is not taken for it.
 */
struct nvs_context *nvs_context_primary_beginning(int ordinal);
void nvs_context_primary_begun(struct nvs_context *entry);
/* In between, after cuCtxDetach gave the context back: true when nobody has it any more. */
bool nvs_context_detached(struct nvs_context *entry);
/* After the call, which ended the context or not, and what follows from that. */
void nvs_context_ended(struct nvs_context *entry, bool gone);

/* The ordinal of a context's device; -1: not known. Without a lock. */
int nvs_context_ordinal(CUcontext context);
/* The primary context of a device, if it was seen since its last end. */
CUcontext nvs_context_primary(int ordinal);
/* Grows whenever a context ends: its streams and events are gone with it. */
uint32_t nvs_context_generation(void);

/*
 * A context, for who keeps what ends with it. Contexts that nobody saw begin share one; never NULL,
 * never freed. Without a lock.
 */
const struct nvs_context *nvs_context_record(CUcontext context);
/* Changes when the context ends, and while it may be ending. Without a lock. */
uint32_t nvs_context_life(const struct nvs_context *record);
#define NVS_CONTEXT_ENDING(life) ((life) & 1)

/*
 * After a wait for all contexts of a device, which has `found` some or none, when so much had been
 * submitted. True: something was submitted since the last one, and of no context that was known in
 * that time.
 */
bool nvs_contexts_missed(int ordinal, uint64_t submitted, bool found);
/* In a forked child. */
void nvs_contexts_forked(void);
