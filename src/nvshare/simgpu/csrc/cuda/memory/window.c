/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives addresses of the window to device memory, and finds what is behind them in a file.
 * Protected by sim.lock.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "memory/range.h"

static uint64_t cursor; /* next address to try; 0: the first */

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
	uint64_t end = sim_window.start + sim_window.bytes;
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
	    bytes <= sim_window.start + sim_window.bytes - wanted &&
	    obstacle_locked(wanted, bytes) == 0)
		return wanted;
	if (alignment < SIM_PAGE)
		alignment = SIM_PAGE;
	start = search_locked(cursor ? cursor : sim_window.start, bytes, alignment);
	if (start == 0)
		start = search_locked(sim_window.start, bytes, alignment);
	if (start != 0)
		cursor = start + bytes;
	return start;
}

/*
 * In which file the byte at an address is and where, and how many bytes from there on lie beside
 * each other. The file stays open while the memory is pinned.
 */
static uint64_t locate(uint64_t address, uint64_t *bytes, int *from)
{
	const struct sim_range *range;
	uint64_t offset = address - sim_window.start;

	*from = sim_window.file;
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

void sim_discard(uint64_t address, uint64_t bytes)
{
	while (bytes > 0) {
		uint64_t piece = bytes;
		int from;
		uint64_t offset = locate(address, &piece, &from);

		sim_file_punch(from, offset, piece);
		address += piece;
		bytes -= piece;
	}
}

CUresult sim_device_memory_locked(struct CUctx_st *context, int device, uint64_t bytes,
				  struct sim_range **range)
{
	uint64_t size = sim_round_up(bytes, SIM_ALIGNMENT);
	uint64_t span = sim_round_up(bytes, SIM_PAGE);
	uint64_t start;

	if (!sim_state_charge(&sim.state, device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	start = sim_window_take_locked(span, bytes >= SIM_GRANULARITY ? SIM_GRANULARITY : SIM_PAGE,
				       0);
	if (start == 0) {
		sim_state_uncharge(&sim.state, device, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*range = sim_range_add_locked(SIM_RANGE_DEVICE, start, size, span);
	(*range)->requested_bytes = bytes;
	(*range)->charged_bytes = size;
	(*range)->device = device;
	(*range)->context = context;
	return CUDA_SUCCESS;
}
