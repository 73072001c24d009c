/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the folder of the devices, and makes its files if need be. Owns nothing; only one process
 * at a time fills them, under a lock of the state's file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state.h"
#include "visible.h"

#define MAGIC 0x335550474d495300ull

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

static bool refuse(const char *text, const char *why, const char *remedy)
{
	fprintf(stderr, "simulated GPU: NVSHARE_SIMGPU_DEVICES=%s %s; %s\n", text, why, remedy);
	return false;
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
	if (count == SIM_DEVICES_CONTEXT_TOO_LARGE)
		return refuse(text, "has contexts as large as their GPU, or larger",
			      SIM_DEVICES_ROOM);
	if (count < 0)
		return refuse(text, "is not understood", "allowed is " SIM_DEVICES_FORM);
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
