/* SPDX-License-Identifier: Apache-2.0 */
/* How long things take: the bus between a device and the host, and calls of the driver. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_direction {
	SIM_TO_DEVICE,
	SIM_TO_HOST
};

/* What moves; the bus is slower for some. */
enum sim_cargo {
	SIM_CARGO_PINNED,     /* copies from and to registered host memory */
	SIM_CARGO_PAGEABLE,   /* from and to other host memory */
	SIM_CARGO_PREFETCHED, /* managed memory that a program sends */
	SIM_CARGO_PAGES,      /* managed memory that page faults ask for */
	SIM_CARGO_CHECKPOINT  /* all that a process has */
};

/* A transfer under way. Several, of any processes, share a direction of a device's bus. */
struct sim_transfer {
	int device;
	enum sim_direction direction;
	enum sim_cargo cargo;
	uint64_t due_ns;   /* when what was booked so far is through */
	uint64_t unbooked; /* bytes that moved since */
};

/* Books the bus from now on. */
struct sim_transfer sim_transfer_begin(int device, enum sim_direction direction,
				       enum sim_cargo cargo);
/* So many bytes more have moved; waits until the bus would have carried what is whole slices. */
void sim_transfer_more(struct sim_transfer *transfer, uint64_t bytes);
/* Waits until all of it is through. */
void sim_transfer_end(struct sim_transfer *transfer);

/* Calls of the driver that take a time of their own; bus.c has their costs. */
enum sim_call {
	SIM_CALL_RESERVE,
	SIM_CALL_CREATE,
	SIM_CALL_MAP,
	SIM_CALL_SET_ACCESS,
	SIM_CALL_UNMAP,
	SIM_CALL_RELEASE,
	SIM_CALL_ALLOC,
	SIM_CALL_FREE,
	SIM_CALL_HOST_ALLOC,
	SIM_CALL_HOST_FREE,
	SIM_CALL_HOST_REGISTER,
	SIM_CALL_HOST_UNREGISTER,
	SIM_CALL_CHECKPOINT, /* of a process, and for each of its contexts */
	SIM_CALL_CHECKPOINT_CONTEXT,
	SIM_CALL_RESTORE,
	SIM_CALL_RESTORE_CONTEXT
};

/* What the driver needs for `count` such calls over that many bytes in all. */
uint64_t sim_call_ns(enum sim_call call, uint64_t count, uint64_t bytes);
/* Returns when that time has passed since the call began at start_ns; without the lock. */
void sim_call_takes(uint64_t start_ns, uint64_t ns);
