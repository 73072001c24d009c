/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of the process: every call of the driver passes it, whichever device it is for, so that
 * the driver may take the process's devices away (a checkpoint) and give them back. While it is
 * closed no thread is in the driver, ours included: a driver that is called then waits or crashes.
 *
 * A thread counts itself in its mark and looks at the door then; whoever closes it does the
 * opposite (marks.h), and opens it again if somebody is inside: closing is a try, and waits for
 * nobody. Inside another call nothing is asked: the driver calls its own exported functions. A
 * launch through an open gate does not look: the door closes only while all gates are closed, and
 * who opens a gate is inside (gate.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "gate/marks.h"

enum nvs_door_state {
	NVS_DOOR_OPEN = 0,
	NVS_DOOR_CLOSING = 1, /* for microseconds: it will be open or closed */
	NVS_DOOR_CLOSED = 2,
	NVS_DOOR_LOST = 3 /* the driver has lost the process: no call enters it any more */
};

/* Written by door.c only; futex word. */
extern _Atomic uint32_t nvs_door_state __attribute__((visibility("hidden")));

/* For the program's threads. */

CUresult nvs_door_enter_slowly(void);

/*
 * Waits until the door is open, or answers in the driver's place; after CUDA_SUCCESS comes
 * nvs_door_leave.
 */
static inline CUresult nvs_door_enter(void)
{
	struct nvs_mark *mark = nvs_mark_mine;
	unsigned int inside;

	if (__builtin_expect(!mark, 0))
		return nvs_door_enter_slowly();
	inside = atomic_load_explicit(&mark->inside, memory_order_relaxed);
	atomic_store_explicit(&mark->inside, inside + 1, memory_order_relaxed);
	nvs_mark_order();
	if (__builtin_expect(!inside && atomic_load_explicit(&nvs_door_state,
							     memory_order_acquire) != NVS_DOOR_OPEN,
			     0)) {
		atomic_store_explicit(&mark->inside, 0, memory_order_release);
		return nvs_door_enter_slowly();
	}
	return CUDA_SUCCESS;
}

/* In a child that was forked meanwhile nothing is left to be taken back. */
static inline void nvs_door_leave(void)
{
	struct nvs_mark *mark = nvs_mark_mine;
	unsigned int inside = mark ? atomic_load_explicit(&mark->inside, memory_order_relaxed) : 0;

	if (inside)
		atomic_store_explicit(&mark->inside, inside - 1, memory_order_release);
}

/*
 * Who waits for a turn may do so outside: how deep it was inside then, for nvs_door_step_in. That
 * waits for the door, and is left out where the call fails anyway.
 */
unsigned int nvs_door_step_out(void);
CUresult nvs_door_step_in(unsigned int inside);

/*
 * It is the parent's: this process was made around fork(2), so no handler of ours has run in it,
 * and nobody is there who would open door or gate.
 */
bool nvs_door_inherited(void);

/* What a call answers that asks the driver before it comes to a gate, which knows of it then. */
#define NVS_BEHIND_DOOR(call)                            \
	__extension__({                                  \
		CUresult nvs_behind_ = nvs_door_enter(); \
		if (nvs_behind_ == CUDA_SUCCESS) {       \
			nvs_behind_ = (call);            \
			nvs_door_leave();                \
		}                                        \
		nvs_behind_;                             \
	})

/* For our own threads, and for what need not be done: nobody is told that they want to enter. */

/* False: it is closed, or there is no memory. Otherwise nvs_door_leave follows. */
bool nvs_door_try(void);
/*
 * Enters whatever it is, and counts as inside: for what has to be done behind the closed door
 * before its client says that it is closed. nvs_door_leave follows.
 */
void nvs_door_pass(void);
/* Waits for it to be open; false: it never will be. Not for the client's thread. */
bool nvs_door_wait(void);

/* For the client. */

/*
 * Closes it; NULL: it is closed, and nobody is inside. Otherwise why it is open, and whether it
 * can never be closed.
 */
const char *nvs_door_close(bool *final);
/* `lost`: the driver has lost the process, and every call answers so from now on. */
void nvs_door_open(bool lost);
/* Which closing it is while it is closed, from 1 on; 0: it is not. */
uint32_t nvs_door_closing(void);
/* A call waits at the closed door or for its turn, or did at the door since it was closed. */
bool nvs_door_wanted(void);
/*
 * How often it was opened after it was closed: another number than before means that what the
 * scheduler heard before may be void, and so does what it hears behind the closed door.
 */
uint32_t nvs_door_openings(void);
/* Whether the device's client can have the process woken. */
void nvs_door_link(const struct nvs_device *device, bool up);

/* Once, when the first device is used. */
void nvs_door_prepare(void);
/* In a forked child, which the driver has not put to sleep. */
void nvs_door_forked(void);
