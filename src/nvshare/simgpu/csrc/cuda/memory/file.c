/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the memory file of the devices with its two windows of addresses (range.h), and the space in
 * its second half, that of the VMM handles. Protected by sim.lock; reaching memory and mapping it
 * need no lock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checkpoint/gate.h"
#include "memory/range.h"

#define LARGEST_WINDOW (4ull << 40)
#define SMALLEST_WINDOW (2ull << 30) /* where address space is short, as in emulation */

/* A free piece of the file's second half; the list is sorted and has no neighbours that touch. */
struct hole {
	uint64_t offset;
	uint64_t bytes;
	struct hole *next;
};

struct sim_window sim_window = { .file = -1 };

static uint64_t own_window; /* where the same bytes are for us */
static struct hole *holes;

/* Reserves both windows with a size; false if there is no room for them. */
static bool reserve(uint64_t bytes)
{
	char *seen = mmap(NULL, bytes + SIM_GRANULARITY, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *own;

	if (seen == MAP_FAILED)
		return false;
	own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, sim_window.file,
		   0);
	if (own == MAP_FAILED) {
		munmap(seen, bytes + SIM_GRANULARITY);
		return false;
	}
	sim_window.start = sim_round_up((uint64_t)(uintptr_t)seen, SIM_GRANULARITY);
	own_window = (uint64_t)(uintptr_t)own;
	sim_window.bytes = bytes;
	return true;
}

CUresult sim_window_open_locked(void)
{
	uint64_t bytes = LARGEST_WINDOW;

	sim_window.file =
		(int)syscall(SYS_memfd_create, "simulated GPU memory", 1u /* MFD_CLOEXEC */);
	if (sim_window.file < 0 || ftruncate(sim_window.file, (off_t)(2 * LARGEST_WINDOW)) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	while (bytes >= SMALLEST_WINDOW && !reserve(bytes))
		bytes /= 2;
	if (sim_window.bytes == 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	holes = calloc(1, sizeof(*holes));
	holes->offset = LARGEST_WINDOW;
	holes->bytes = LARGEST_WINDOW;
	return CUDA_SUCCESS;
}

bool sim_window_contains(uint64_t address)
{
	return address - sim_window.start < sim_window.bytes;
}

void *sim_reach(uint64_t address)
{
	uint64_t own =
		sim_window_contains(address) ? address - sim_window.start + own_window : address;

	return (void *)(uintptr_t)own;
}

void sim_look_at_progress(void)
{
	if (sim_gate_now() == SIM_GATE_CHECKPOINTED)
		(void)*(volatile const char *)(uintptr_t)sim_window.start;
}

uint64_t sim_file_take_locked(uint64_t bytes)
{
	for (struct hole **link = &holes; *link; link = &(*link)->next) {
		struct hole *hole = *link;
		uint64_t offset = hole->offset;

		if (hole->bytes < bytes)
			continue;
		hole->offset += bytes;
		hole->bytes -= bytes;
		if (hole->bytes == 0) {
			*link = hole->next;
			free(hole);
		}
		return offset;
	}
	return 0;
}

void sim_file_punch(int from, uint64_t offset, uint64_t bytes)
{
	(void)fallocate(from, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			(off_t)bytes);
}

void sim_file_give_locked(uint64_t offset, uint64_t bytes)
{
	struct hole **link = &holes;
	struct hole *before = NULL;
	struct hole *after;

	sim_file_punch(sim_window.file, offset, bytes);
	while (*link && (*link)->offset < offset) {
		before = *link;
		link = &(*link)->next;
	}
	after = *link;
	if (before && before->offset + before->bytes == offset) {
		before->bytes += bytes;
	} else {
		before = calloc(1, sizeof(*before));
		before->offset = offset;
		before->bytes = bytes;
		before->next = after;
		*link = before;
	}
	if (after && before->offset + before->bytes == after->offset) {
		before->bytes += after->bytes;
		before->next = after->next;
		free(after);
	}
}

bool sim_file_map(uint64_t address, uint64_t bytes, int from, uint64_t offset)
{
	return mmap(sim_reach(address), bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_FIXED | MAP_NORESERVE, from < 0 ? sim_window.file : from,
		    (off_t)offset) != MAP_FAILED;
}

void sim_file_unmap(uint64_t address, uint64_t bytes)
{
	(void)sim_file_map(address, bytes, -1, address - sim_window.start);
}

bool sim_file_show(uint64_t address, uint64_t bytes, int from, uint64_t offset, bool readable,
		   bool writable)
{
	int rights = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);

	return mmap((void *)(uintptr_t)address, bytes, rights,
		    MAP_SHARED | MAP_FIXED | MAP_NORESERVE, from < 0 ? sim_window.file : from,
		    (off_t)offset) != MAP_FAILED;
}

void sim_file_hide(uint64_t address, uint64_t bytes)
{
	(void)mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void sim_discard_in_place(uint64_t address, uint64_t bytes)
{
	sim_file_punch(sim_window.file, address - sim_window.start, bytes);
}
