/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all processes that use one set of simulated devices share: a folder with these files.
 *
 * - devices: the devices' text (devices_text.h). It is made from NVSHARE_SIMGPU_DEVICES when it is
 *   not there, and counts from then on.
 * - state: struct sim_shared, mapped by every process.
 * - record-N: what device N executed (record.h).
 * - events: lines "INDEX XID". Whoever wants NVML to report that error appends one.
 * - nvml: what is wrong with NVML now (nvml/sick.c), a line each: "lost INDEX", "no-memory INDEX",
 *   "error NUMBER", "hang". Whoever wants that writes it, and takes it out again.
 *
 * The folder is NVSHARE_SIMGPU_DIR, or /dev/shm/nvshare-simgpu-UID; its permissions say who may use
 * the devices. Of its devices a process sees those that NVIDIA_VISIBLE_DEVICES names, as if a
 * container runtime had hidden the others (visible.h): what counts devices for the process counts
 * the visible ones, while `shared` and the records count all.
 *
 * Every process that has called cuInit holds one slot of `processes` and, as long as it lives, a
 * lock on the slot's byte of the file (an open file description lock, which dies with the process
 * however it ends, and means the same in every pid namespace). The table is changed only under the
 * lock of the file's first byte and, within a process, under the state's mutex.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "devices_text.h"

#define SIM_MAX_PROCESSES 512
#define SIM_PATH_BYTES 512

struct sim_shared_device {
	uint8_t uuid[16];
	char name[SIM_NAME_BYTES];
	uint64_t total_bytes;
	uint64_t context_bytes;
	uint64_t launch_bytes;
	uint64_t bus_bytes_per_second;
	/* device/bus.c: until when each direction is taken, CLOCK_MONOTONIC */
	_Atomic uint64_t bus_taken_until_ns[2];
};

/*
 * What another process wants of this one: a step of its checkpoint, or its state. One at a time
 * asks, under a lock of the slot's second byte of the file; cuda/checkpoint/ has both sides.
 */
struct sim_request {
	_Atomic uint32_t turn; /* odd: asked, and not answered yet */
	uint32_t step;	       /* enum sim_step */
	uint32_t timeout_ms;
	uint32_t result; /* CUresult */
	uint32_t state;	 /* CUprocessState, after it */
};

struct sim_process {
	uint64_t client;	/* a number that no other process has or had; 0: the slot is free */
	uint32_t pid;		/* in the process's own pid namespace, */
	uint64_t pid_namespace; /* which has this inode */
	struct sim_request request;
	uint32_t contexts[SIM_MAX_DEVICES];
	uint64_t used_bytes[SIM_MAX_DEVICES];
	/* managed memory that is on the device now; it gives way to what needs the room */
	_Atomic uint64_t managed_bytes[SIM_MAX_DEVICES];
	_Atomic uint64_t managed_touched_ns[SIM_MAX_DEVICES];
};

struct sim_shared {
	uint64_t magic; /* written last */
	uint32_t device_count;
	uint64_t last_client;
	struct sim_shared_device devices[SIM_MAX_DEVICES];
	struct sim_process processes[SIM_MAX_PROCESSES];
};

struct sim_state {
	pthread_mutex_t mutex;
	char folder[SIM_PATH_BYTES];
	struct sim_shared *shared;
	unsigned int device_count;	     /* of the visible ones */
	unsigned int place[SIM_MAX_DEVICES]; /* of each visible one among all */
	int fd;
	int slot; /* of this process; -1: none yet */
};

/*
 * Opens the folder, and makes it if need be. false: it cannot be had, and one line on stderr says
 * why.
 */
bool sim_state_open(struct sim_state *state);

/* Takes a slot for this process if it has none. false: there are more processes than slots. */
bool sim_state_join(struct sim_state *state);

/* A visible device as all processes know it. */
static inline struct sim_shared_device *sim_state_device(const struct sim_state *state, int device)
{
	return &state->shared->devices[state->place[device]];
}

/*
 * The slot of the living process that has this pid in this pid namespace; -1: there is none.
 * sim_state_is_alive says of a slot that was found whether it is still that process's.
 */
int sim_state_find(struct sim_state *state, uint64_t pid_namespace, uint32_t pid);
bool sim_state_is_alive(const struct sim_state *state, int slot, uint64_t client);

/* What a process has of all devices, by their place among all. */
struct sim_holding {
	uint64_t used_bytes[SIM_MAX_DEVICES];
	uint32_t contexts[SIM_MAX_DEVICES];
};

/* What this process has, managed memory aside. */
struct sim_holding sim_state_holding(struct sim_state *state);
/* All that this process has is free. */
void sim_state_leave(struct sim_state *state);
/* It has all of this again; false, and nothing is changed: it does not fit. */
bool sim_state_return(struct sim_state *state, const struct sim_holding *holding);

/* Takes bytes of a device's memory for this process; false: there are not that many left. */
bool sim_state_charge(struct sim_state *state, int device, uint64_t bytes);
void sim_state_uncharge(struct sim_state *state, int device, uint64_t bytes);

/*
 * Managed memory. Bytes of this process come to the device, and those that were not touched for the
 * longest go, this process's own last; returns how many go.
 */
uint64_t sim_state_page_in(struct sim_state *state, int device, uint64_t bytes);
void sim_state_page_out(struct sim_state *state, int device, uint64_t bytes);
/* How much of this process's is still there; notes that it was touched. */
uint64_t sim_state_touch_managed(struct sim_state *state, int device, uint64_t now_ns);

/* Counts this process's contexts of a device. */
void sim_state_count_context(struct sim_state *state, int device, int change);

/* What all living processes together use of a device. */
uint64_t sim_state_used(struct sim_state *state, int device);

/*
 * Copies the slots of the living processes that have a context of the device; returns how many
 * there are, even if more than room. In a slot the device's number is its place.
 */
unsigned int sim_state_processes(struct sim_state *state, int device, struct sim_process *out,
				 unsigned int room);
