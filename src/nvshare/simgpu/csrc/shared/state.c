/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns this process's slot in the shared state, and what is counted in the slots. state.h says what
 * is locked by what.
 */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_LOCK_BYTE 0
#define SLOT_LOCK_BYTE 4096

static int lock_byte(int fd, int command, short type, off_t byte, struct flock *out)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	int result;

	do
		result = fcntl(fd, command, &lock);
	while (result < 0 && errno == EINTR);
	if (out)
		*out = lock;
	return result;
}

static void lock_table(struct sim_state *state)
{
	pthread_mutex_lock(&state->mutex);
	lock_byte(state->fd, F_OFD_SETLKW, F_WRLCK, TABLE_LOCK_BYTE, NULL);
}

static void unlock_table(struct sim_state *state)
{
	lock_byte(state->fd, F_OFD_SETLK, F_UNLCK, TABLE_LOCK_BYTE, NULL);
	pthread_mutex_unlock(&state->mutex);
}

static bool is_alive(const struct sim_state *state, int slot)
{
	struct flock lock;

	if (slot == state->slot)
		return true;
	if (lock_byte(state->fd, F_OFD_GETLK, F_WRLCK, SLOT_LOCK_BYTE + slot, &lock) < 0)
		return true;
	return lock.l_type != F_UNLCK;
}

/* Frees the slots of processes that are gone. */
static void reap(struct sim_state *state)
{
	for (int i = 0; i < SIM_MAX_PROCESSES; i++) {
		struct sim_process *process = &state->shared->processes[i];

		if (process->client != 0 && !is_alive(state, i))
			memset(process, 0, sizeof(*process));
	}
}

static uint64_t sum_used(const struct sim_state *state, int device)
{
	uint64_t sum = 0;

	for (int i = 0; i < SIM_MAX_PROCESSES; i++)
		sum += state->shared->processes[i].used_bytes[state->place[device]];
	return sum;
}

static uint64_t own_pid_namespace(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

bool sim_state_join(struct sim_state *state)
{
	bool joined = false;

	lock_table(state);
	if (state->slot >= 0)
		joined = true;
	else
		reap(state);
	for (int i = 0; !joined && i < SIM_MAX_PROCESSES; i++) {
		struct sim_process *process = &state->shared->processes[i];

		if (process->client != 0 ||
		    lock_byte(state->fd, F_OFD_SETLK, F_WRLCK, SLOT_LOCK_BYTE + i, NULL) < 0)
			continue;
		process->client = ++state->shared->last_client;
		process->pid = (uint32_t)getpid();
		process->pid_namespace = own_pid_namespace();
		state->slot = i;
		joined = true;
	}
	unlock_table(state);
	return joined;
}

bool sim_state_is_alive(const struct sim_state *state, int slot, uint64_t client)
{
	return state->shared->processes[slot].client == client && is_alive(state, slot);
}

int sim_state_find(struct sim_state *state, uint64_t pid_namespace, uint32_t pid)
{
	int found = -1;

	lock_table(state);
	reap(state);
	for (int i = 0; found < 0 && i < SIM_MAX_PROCESSES; i++) {
		const struct sim_process *process = &state->shared->processes[i];

		if (process->client != 0 && process->pid == pid &&
		    process->pid_namespace == pid_namespace)
			found = i;
	}
	unlock_table(state);
	return found;
}

static uint64_t sum_managed(const struct sim_state *state, int device)
{
	uint64_t sum = 0;

	for (int i = 0; i < SIM_MAX_PROCESSES; i++)
		sum += state->shared->processes[i].managed_bytes[state->place[device]];
	return sum;
}

/* The process whose managed memory was not touched for the longest; NULL: there is none. */
static struct sim_process *least_recent(struct sim_state *state, int device)
{
	unsigned int place = state->place[device];
	struct sim_process *found = NULL;

	for (int i = 0; i < SIM_MAX_PROCESSES; i++) {
		struct sim_process *process = &state->shared->processes[i];

		if (process->managed_bytes[place] > 0 &&
		    (!found ||
		     process->managed_touched_ns[place] < found->managed_touched_ns[place]))
			found = process;
	}
	return found;
}

/* Managed memory goes until all that is on the device fits; returns how much went. */
static uint64_t give_way(struct sim_state *state, int device)
{
	uint64_t total = sim_state_device(state, device)->total_bytes;
	uint64_t there = sum_used(state, device) + sum_managed(state, device);
	uint64_t gone = 0;

	while (there > total) {
		struct sim_process *process = least_recent(state, device);
		uint64_t bytes = process->managed_bytes[state->place[device]];

		if (bytes > there - total)
			bytes = there - total;
		process->managed_bytes[state->place[device]] -= bytes;
		there -= bytes;
		gone += bytes;
	}
	return gone;
}

uint64_t sim_state_page_in(struct sim_state *state, int device, uint64_t bytes)
{
	uint64_t gone;

	lock_table(state);
	reap(state);
	state->shared->processes[state->slot].managed_bytes[state->place[device]] += bytes;
	gone = give_way(state, device);
	unlock_table(state);
	return gone;
}

void sim_state_page_out(struct sim_state *state, int device, uint64_t bytes)
{
	_Atomic uint64_t *own =
		&state->shared->processes[state->slot].managed_bytes[state->place[device]];

	lock_table(state);
	*own -= bytes < *own ? bytes : *own;
	unlock_table(state);
}

uint64_t sim_state_touch_managed(struct sim_state *state, int device, uint64_t now_ns)
{
	struct sim_process *own = &state->shared->processes[state->slot];

	own->managed_touched_ns[state->place[device]] = now_ns;
	return own->managed_bytes[state->place[device]];
}

bool sim_state_charge(struct sim_state *state, int device, uint64_t bytes)
{
	const struct sim_shared_device *shared = sim_state_device(state, device);
	bool fits;

	lock_table(state);
	fits = bytes <= shared->total_bytes &&
	       sum_used(state, device) <= shared->total_bytes - bytes;
	if (!fits) {
		reap(state);
		fits = bytes <= shared->total_bytes &&
		       sum_used(state, device) <= shared->total_bytes - bytes;
	}
	if (fits) {
		state->shared->processes[state->slot].used_bytes[state->place[device]] += bytes;
		(void)give_way(state, device);
	}
	unlock_table(state);
	return fits;
}

void sim_state_uncharge(struct sim_state *state, int device, uint64_t bytes)
{
	lock_table(state);
	state->shared->processes[state->slot].used_bytes[state->place[device]] -= bytes;
	unlock_table(state);
}

struct sim_holding sim_state_holding(struct sim_state *state)
{
	const struct sim_process *own = &state->shared->processes[state->slot];
	struct sim_holding holding;

	lock_table(state);
	memcpy(holding.used_bytes, own->used_bytes, sizeof(own->used_bytes));
	memcpy(holding.contexts, own->contexts, sizeof(own->contexts));
	unlock_table(state);
	return holding;
}

void sim_state_leave(struct sim_state *state)
{
	struct sim_process *own = &state->shared->processes[state->slot];

	lock_table(state);
	memset(own->used_bytes, 0, sizeof(own->used_bytes));
	memset(own->contexts, 0, sizeof(own->contexts));
	for (int i = 0; i < SIM_MAX_DEVICES; i++)
		own->managed_bytes[i] = 0;
	unlock_table(state);
}

bool sim_state_return(struct sim_state *state, const struct sim_holding *holding)
{
	struct sim_process *own = &state->shared->processes[state->slot];
	bool fits = true;

	lock_table(state);
	reap(state);
	for (int i = 0; i < (int)state->device_count; i++)
		fits &= sum_used(state, i) + holding->used_bytes[state->place[i]] <=
			sim_state_device(state, i)->total_bytes;
	if (fits) {
		memcpy(own->used_bytes, holding->used_bytes, sizeof(own->used_bytes));
		memcpy(own->contexts, holding->contexts, sizeof(own->contexts));
		for (int i = 0; i < (int)state->device_count; i++)
			(void)give_way(state, i);
	}
	unlock_table(state);
	return fits;
}

void sim_state_count_context(struct sim_state *state, int device, int change)
{
	lock_table(state);
	state->shared->processes[state->slot].contexts[state->place[device]] += (uint32_t)change;
	unlock_table(state);
}

uint64_t sim_state_used(struct sim_state *state, int device)
{
	uint64_t used;

	lock_table(state);
	reap(state);
	used = sum_used(state, device);
	unlock_table(state);
	return used;
}

unsigned int sim_state_processes(struct sim_state *state, int device, struct sim_process *out,
				 unsigned int room)
{
	unsigned int found = 0;

	lock_table(state);
	reap(state);
	for (int i = 0; i < SIM_MAX_PROCESSES; i++) {
		const struct sim_process *process = &state->shared->processes[i];

		if (process->client == 0 || process->contexts[state->place[device]] == 0)
			continue;
		if (found < room)
			out[found] = *process;
		found++;
	}
	unlock_table(state);
	return found;
}
