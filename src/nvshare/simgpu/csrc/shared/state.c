/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the mapping of the shared state and this process's slot in it. state.h says what is locked
 * by what.
 */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "visible.h"

#define MAGIC 0x325550474d495300ull
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
		state->slot = i;
		joined = true;
	}
	unlock_table(state);
	return joined;
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

/* The finalizer of splitmix64: every bit of the input moves about half of the output's. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* A UUID that follows from the folder's identity and the device's index. */
static void make_uuid(const struct stat *folder, unsigned int index, uint8_t uuid[16])
{
	uint64_t high = mix(mix((uint64_t)folder->st_dev) ^ (uint64_t)folder->st_ino);
	uint64_t low;

	high = mix(high + index);
	low = mix(high);
	memcpy(uuid, &high, 8);
	memcpy(uuid + 8, &low, 8);
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80);
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

static bool complain(const char *what, const char *value)
{
	fprintf(stderr, "simulated GPU: %s %s: %s\n", what, value, strerror(errno));
	return false;
}

static int open_in(const char *folder, const char *name, int flags)
{
	char path[SIM_PATH_BYTES + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, flags | O_CLOEXEC, 0666);
	if (fd >= 0 && flags & O_CREAT)
		/* the folder's permissions decide who may use it, not the umask */
		(void)fchmod(fd, 0666);
	return fd;
}

/* The devices' text: what the folder has, else the environment's, which is then written there. */
static bool read_devices_text(const char *folder, char *text, size_t size)
{
	const char *wanted = getenv("NVSHARE_SIMGPU_DEVICES");
	int fd = open_in(folder, "devices", O_RDONLY);
	ssize_t length;

	if (fd >= 0) {
		length = read(fd, text, size - 1);
		close(fd);
		if (length < 0)
			return complain("cannot read devices in", folder);
		text[length] = '\0';
		text[strcspn(text, "\n")] = '\0';
		return true;
	}
	snprintf(text, size, "%s", wanted && *wanted ? wanted : SIM_DEFAULT_DEVICES);
	return true;
}

static bool write_devices_text(const char *folder, const char *text)
{
	int fd = open_in(folder, "devices", O_WRONLY | O_CREAT);
	bool written = fd >= 0 && dprintf(fd, "%s\n", text) > 0;

	if (fd >= 0)
		close(fd);
	return written || complain("cannot write devices in", folder);
}

/* Fills a state file that is still empty; the caller has it locked. */
static bool fill(const char *folder, int fd)
{
	struct sim_device_text devices[SIM_MAX_DEVICES];
	struct sim_shared *shared;
	struct stat identity;
	char text[4096];
	int count;

	if (!read_devices_text(folder, text, sizeof(text)))
		return false;
	count = sim_devices_parse(text, devices);
	if (count < 0) {
		fprintf(stderr,
			"simulated GPU: NVSHARE_SIMGPU_DEVICES=%s is not understood; allowed is "
			"%s\n",
			text, SIM_DEVICES_FORM);
		return false;
	}
	if (stat(folder, &identity) < 0 || ftruncate(fd, sizeof(struct sim_shared)) < 0)
		return complain("cannot use", folder);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return complain("cannot map state in", folder);
	shared->device_count = (uint32_t)count;
	for (int i = 0; i < count; i++) {
		make_uuid(&identity, (unsigned int)i, shared->devices[i].uuid);
		memcpy(shared->devices[i].name, devices[i].name, SIM_NAME_BYTES);
		shared->devices[i].total_bytes = devices[i].total_bytes;
		shared->devices[i].context_bytes = devices[i].context_bytes;
		shared->devices[i].launch_bytes = devices[i].launch_bytes;
		shared->devices[i].bus_bytes_per_second = devices[i].bus_bytes_per_second;
	}
	if (write_devices_text(folder, text))
		shared->magic = MAGIC;
	count = shared->magic == MAGIC;
	munmap(shared, sizeof(*shared));
	return count;
}

/* Brings the file into a state that can be mapped; only one process does so at a time. */
static bool prepare(const char *folder, int fd)
{
	uint64_t magic = 0;
	bool ready;

	if (flock(fd, LOCK_EX) < 0)
		return complain("cannot lock state in", folder);
	ready = pread(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && magic == MAGIC;
	if (!ready && magic != 0) {
		fprintf(stderr,
			"simulated GPU: %s/state belongs to another version; remove the folder\n",
			folder);
		flock(fd, LOCK_UN);
		return false;
	}
	if (!ready)
		ready = fill(folder, fd);
	flock(fd, LOCK_UN);
	return ready;
}

static bool name_folder(char folder[SIM_PATH_BYTES])
{
	const char *given = getenv("NVSHARE_SIMGPU_DIR");

	if (!given || !*given) {
		snprintf(folder, SIM_PATH_BYTES, "/dev/shm/nvshare-simgpu-%u",
			 (unsigned int)getuid());
		return true;
	}
	errno = ENAMETOOLONG;
	return snprintf(folder, SIM_PATH_BYTES, "%s", given) < SIM_PATH_BYTES ||
	       complain("cannot use", given);
}

bool sim_state_open(struct sim_state *state)
{
	void *mapped;

	pthread_mutex_init(&state->mutex, NULL);
	state->slot = -1;
	if (!name_folder(state->folder))
		return false;
	if (mkdir(state->folder, 0700) < 0 && errno != EEXIST)
		return complain("cannot make", state->folder);
	state->fd = open_in(state->folder, "state", O_RDWR | O_CREAT);
	if (state->fd < 0)
		return complain("cannot open state in", state->folder);
	mapped = MAP_FAILED;
	if (prepare(state->folder, state->fd)) {
		mapped = mmap(NULL, sizeof(struct sim_shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			      state->fd, 0);
		if (mapped == MAP_FAILED)
			complain("cannot map state in", state->folder);
	}
	if (mapped == MAP_FAILED) {
		close(state->fd);
		return false;
	}
	state->shared = mapped;
	state->device_count =
		sim_visible(state->shared, getenv("NVIDIA_VISIBLE_DEVICES"), state->place);
	return true;
}
