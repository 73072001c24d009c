/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a device: which process executed what on it, from when to when. One file a device
 * in the state folder, a ring of fixed-size entries that all processes append to without a lock;
 * simgpu/record.py reads it.
 *
 * A writer takes the next number, fills the entry and sets its `sequence` to that number plus one
 * last, so that a reader knows a finished entry, and knows when the ring has come round.
 */
#pragma once

#include <stdint.h>

#define SIM_RECORD_CAPACITY (1u << 20)
#define SIM_RECORD_NAME_BYTES 24

enum sim_record_kind {
	SIM_RECORD_KERNEL = 1,
	SIM_RECORD_COPY = 2,
	SIM_RECORD_MEMSET = 3,
	SIM_RECORD_MEMOP = 4,
	SIM_RECORD_PREFETCH = 5
};

struct sim_record_entry {
	_Atomic uint64_t sequence;
	uint64_t client;   /* struct sim_process: tells processes apart across pid namespaces */
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t end_ns;
	uint64_t bytes; /* of a copy or a prefetch; 0: of something else */
	uint32_t pid;
	uint32_t kind;
	char name[SIM_RECORD_NAME_BYTES]; /* cut off if longer; filled up with zeros */
};

struct sim_record {
	uint64_t magic;
	uint64_t capacity;
	_Atomic uint64_t next;
	char pad[4096 - 24];
	struct sim_record_entry entries[SIM_RECORD_CAPACITY];
};

/* Maps the record of the device at that place among all of the folder; NULL: it cannot be had. */
struct sim_record *sim_record_open(const char *folder, unsigned int place);

void sim_record_append(struct sim_record *record, const struct sim_record_entry *entry);
