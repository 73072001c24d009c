/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes copies. Device memory that nobody has written takes no host memory, before and after a
 * copy; a copy between host and device moves at the pace of the bus. Owns nothing; the memory is
 * pinned meanwhile.
 */
#include "copy/copy.h"

#include <stdlib.h>
#include <string.h>

#include "device/bus.h"
#include "memory/range.h"

#define PIECE SIM_GRANULARITY
#define SPARSE_FROM_BYTES SIM_KIB(64)
#define ZERO_STEP 512u

static bool is_zero(const unsigned char *at, uint64_t bytes)
{
	uint64_t done = 0;

	for (; done + ZERO_STEP <= bytes; done += ZERO_STEP) {
		uint64_t words[ZERO_STEP / sizeof(uint64_t)], any = 0;

		memcpy(words, at + done, ZERO_STEP);
		for (size_t i = 0; i < ZERO_STEP / sizeof(uint64_t); i++)
			any |= words[i];
		if (any)
			return false;
	}
	for (; done < bytes; done++) {
		if (at[done])
			return false;
	}
	return true;
}

/*
 * Makes bytes zero. Those that are zero already are only read, which takes no memory where there is
 * none yet.
 */
static void clear(uint64_t address, uint64_t bytes)
{
	unsigned char *at = sim_reach(address);

	if (sim_window_contains(address)) {
		if (sim_next_data(address, bytes) < address + bytes)
			sim_discard(address, bytes);
		return;
	}
	for (uint64_t done = 0; done < bytes; done += SIM_PAGE) {
		uint64_t piece = bytes - done < SIM_PAGE ? bytes - done : SIM_PAGE;

		if (!is_zero(at + done, piece))
			memset(at + done, 0, piece);
	}
}

static void copy_piece(uint64_t dst, uint64_t src, uint64_t bytes)
{
	if (sim_window_contains(src) && sim_next_data(src, bytes) == src + bytes)
		clear(dst, bytes);
	else if (sim_window_contains(dst) && sim_next_data(dst, bytes) == dst + bytes &&
		 is_zero(sim_reach(src), bytes))
		return;
	else
		memmove(sim_reach(dst), sim_reach(src), bytes);
}

/* The transfer is NULL for a copy that needs no bus. */
static void copy_row(uint64_t dst, uint64_t src, uint64_t bytes, struct sim_transfer *transfer)
{
	bool overlaps = dst < src + bytes && src < dst + bytes;

	for (uint64_t done = 0; done < bytes;) {
		uint64_t piece = overlaps || bytes - done < PIECE ? bytes - done : PIECE;

		if (overlaps || bytes < SPARSE_FROM_BYTES)
			memmove(sim_reach(dst + done), sim_reach(src + done), piece);
		else
			copy_piece(dst + done, src + done, piece);
		if (transfer)
			sim_transfer_more(transfer, piece);
		done += piece;
	}
}

/* How many bytes a side spans, from the first that it touches to the last. */
static uint64_t extent(const struct sim_place *place, const struct sim_copy *copy)
{
	return (copy->depth - 1) * place->slice + (copy->height - 1) * place->pitch + copy->width;
}

/* Rows that follow one another without a gap on both sides become one row. */
static void flatten(struct sim_copy *copy)
{
	if (copy->height > 1 && copy->src.pitch == copy->width && copy->dst.pitch == copy->width) {
		copy->width *= copy->height;
		copy->height = 1;
	}
	if (copy->height == 1 && copy->depth > 1 && copy->src.slice == copy->width &&
	    copy->dst.slice == copy->width) {
		copy->width *= copy->depth;
		copy->depth = 1;
	}
}

static void copy_rows(const struct sim_copy *given, struct sim_transfer *transfer)
{
	struct sim_copy copy = *given;

	flatten(&copy);
	for (uint64_t z = 0; z < copy.depth; z++) {
		for (uint64_t y = 0; y < copy.height; y++)
			copy_row(copy.dst.address + z * copy.dst.slice + y * copy.dst.pitch,
				 copy.src.address + z * copy.src.slice + y * copy.src.pitch,
				 copy.width, transfer);
	}
}

static void copy_over_bus(int device, const struct sim_copy *copy)
{
	struct sim_transfer transfer = sim_transfer_begin(
		device, copy->route == SIM_ROUTE_TO_HOST ? SIM_TO_HOST : SIM_TO_DEVICE,
		copy->pageable ? SIM_CARGO_PAGEABLE : SIM_CARGO_PINNED);

	copy_rows(copy, &transfer);
	sim_transfer_end(&transfer);
}

CUresult sim_copy_run(struct CUctx_st *context, const struct sim_copy *copy)
{
	struct CUctx_st *reader = copy->src.context ? copy->src.context : context;
	struct CUctx_st *writer = copy->dst.context ? copy->dst.context : context;
	struct sim_copy source = *copy;
	uint64_t src_extent, dst_extent;
	CUresult result;

	if (copy->width == 0 || copy->height == 0 || copy->depth == 0)
		return CUDA_SUCCESS;
	if (copy->staged)
		source.src.address = (uint64_t)(uintptr_t)copy->staged;
	src_extent = extent(&source.src, copy);
	dst_extent = extent(&source.dst, copy);
	/* a copy that finds its memory gone fails otherwise than a kernel does */
	result = sim_pin(reader, source.src.address, src_extent, SIM_READ, copy->src.host, true);
	if (result != CUDA_SUCCESS)
		return CUDA_ERROR_LAUNCH_FAILED;
	result = sim_pin(writer, source.dst.address, dst_extent, SIM_WRITE, copy->dst.host, true);
	if (result == CUDA_SUCCESS) {
		if (copy->route == SIM_ROUTE_NO_BUS)
			copy_rows(&source, NULL);
		else
			copy_over_bus(context->device, &source);
		sim_unpin(writer, source.dst.address, dst_extent);
	}
	sim_unpin(reader, source.src.address, src_extent);
	return result == CUDA_ERROR_ILLEGAL_ADDRESS ? CUDA_ERROR_LAUNCH_FAILED : result;
}
