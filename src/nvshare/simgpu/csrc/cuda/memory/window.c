/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the memory file of the devices and its two windows of addresses (range.h), and the space in
 * the file's second half, that of the VMM handles. Protected by sim.lock; reaching memory and
 * mapping it need no lock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/range.h"

#define LARGEST_WINDOW (4ull << 40)
#define SMALLEST_WINDOW (2ull << 30) /* where address space is short, as in emulation */

/* A free piece of the file's second half; the list is sorted and has no neighbours that touch. */
struct hole {
	uint64_t offset;
	uint64_t bytes;
	struct hole *next;
};

static int file = -1;
static uint64_t window_bytes;
static uint64_t program_window; /* the addresses that programs see */
static uint64_t own_window;	/* where the same bytes are for us */
static uint64_t cursor;		/* next address to try */
static struct hole *holes;

/* Reserves both windows with a size; false if there is no room for them. */
static bool reserve(uint64_t bytes)
{
	char *seen = mmap(NULL, bytes + SIM_GRANULARITY, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *own;

	if (seen == MAP_FAILED)
		return false;
	own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
	if (own == MAP_FAILED) {
		munmap(seen, bytes + SIM_GRANULARITY);
		return false;
	}
	program_window = sim_round_up((uint64_t)(uintptr_t)seen, SIM_GRANULARITY);
	own_window = (uint64_t)(uintptr_t)own;
	window_bytes = bytes;
	return true;
}

CUresult sim_window_open_locked(void)
{
	uint64_t bytes = LARGEST_WINDOW;

	file = (int)syscall(SYS_memfd_create, "simulated GPU memory", 1u /* MFD_CLOEXEC */);
	if (file < 0 || ftruncate(file, (off_t)(2 * LARGEST_WINDOW)) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	while (bytes >= SMALLEST_WINDOW && !reserve(bytes))
		bytes /= 2;
	if (window_bytes == 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	cursor = program_window;
	holes = calloc(1, sizeof(*holes));
	holes->offset = LARGEST_WINDOW;
	holes->bytes = LARGEST_WINDOW;
	return CUDA_SUCCESS;
}

bool sim_window_contains(uint64_t address)
{
	return address - program_window < window_bytes;
}

void *sim_reach(uint64_t address)
{
	uint64_t own =
		sim_window_contains(address) ? address - program_window + own_window : address;

	return (void *)(uintptr_t)own;
}

/* The end of whatever lies in [start, start + bytes); 0 if nothing does. */
static uint64_t obstacle_locked(uint64_t start, uint64_t bytes)
{
	const struct sim_range *range = sim_range_next_locked(start);
	const struct sim_range *reservation = sim_reservation_find_locked(start);

	if (range && range->start < start + bytes)
		return range->start + range->span;
	if (!reservation)
		reservation = sim_reservation_next_locked(start);
	if (reservation && reservation->start < start + bytes)
		return reservation->start + reservation->span;
	return 0;
}

/* The first free place from an address on; 0: none before the window's end. */
static uint64_t search_locked(uint64_t from, uint64_t bytes, uint64_t alignment)
{
	uint64_t end = program_window + window_bytes;
	uint64_t start = sim_round_up(from, alignment);

	while (start < end && bytes <= end - start) {
		uint64_t behind = obstacle_locked(start, bytes);

		if (behind == 0)
			return start;
		start = sim_round_up(behind, alignment);
	}
	return 0;
}

uint64_t sim_window_take_locked(uint64_t bytes, uint64_t alignment, uint64_t wanted)
{
	uint64_t start = 0;

	if (wanted % alignment == 0 && sim_window_contains(wanted) &&
	    bytes <= program_window + window_bytes - wanted && obstacle_locked(wanted, bytes) == 0)
		return wanted;
	if (alignment < SIM_PAGE)
		alignment = SIM_PAGE;
	start = search_locked(cursor, bytes, alignment);
	if (start == 0)
		start = search_locked(program_window, bytes, alignment);
	if (start != 0)
		cursor = start + bytes;
	return start;
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

static void punch(int from, uint64_t offset, uint64_t bytes)
{
	(void)fallocate(from, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			(off_t)bytes);
}

void sim_file_give_locked(uint64_t offset, uint64_t bytes)
{
	struct hole **link = &holes;
	struct hole *before = NULL;
	struct hole *after;

	punch(file, offset, bytes);
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
		    MAP_SHARED | MAP_FIXED | MAP_NORESERVE, from < 0 ? file : from,
		    (off_t)offset) != MAP_FAILED;
}

void sim_file_unmap(uint64_t address, uint64_t bytes)
{
	(void)sim_file_map(address, bytes, -1, address - program_window);
}

bool sim_file_show(uint64_t address, uint64_t bytes, int from, uint64_t offset, bool readable,
		   bool writable)
{
	int rights = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);

	return mmap((void *)(uintptr_t)address, bytes, rights,
		    MAP_SHARED | MAP_FIXED | MAP_NORESERVE, from < 0 ? file : from,
		    (off_t)offset) != MAP_FAILED;
}

void sim_file_hide(uint64_t address, uint64_t bytes)
{
	(void)mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/*
 * In which file the byte at an address is and where, and how many bytes from there on lie beside
 * each other. The file stays open while the memory is pinned.
 */
static uint64_t locate(uint64_t address, uint64_t *bytes, int *from)
{
	const struct sim_range *range;
	uint64_t offset = address - program_window;

	*from = file;
	sim_lock();
	range = sim_range_find_locked(address);
	if (range) {
		uint64_t rest = range->start + range->span - address;

		if (*bytes > rest)
			*bytes = rest;
		if (range->kind == SIM_RANGE_MAPPED) {
			offset = range->physical->offset + range->physical_offset +
				 (address - range->start);
			if (range->physical->file >= 0)
				*from = range->physical->file;
		}
	}
	sim_unlock();
	return offset;
}

uint64_t sim_next_data(uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes;

	while (address < end) {
		uint64_t piece = end - address;
		int from;
		uint64_t offset = locate(address, &piece, &from);
		off_t data = lseek(from, (off_t)offset, SEEK_DATA);

		if (data >= 0 && (uint64_t)data < offset + piece)
			return address + ((uint64_t)data - offset);
		address += piece;
	}
	return end;
}

void sim_discard_in_place(uint64_t address, uint64_t bytes)
{
	punch(file, address - program_window, bytes);
}

void sim_discard(uint64_t address, uint64_t bytes)
{
	while (bytes > 0) {
		uint64_t piece = bytes;
		int from;
		uint64_t offset = locate(address, &piece, &from);

		punch(from, offset, piece);
		address += piece;
		bytes -= piece;
	}
}
