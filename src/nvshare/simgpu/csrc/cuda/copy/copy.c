/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes copies. Device memory that nobody has written takes no host memory, before and after a
 * copy; a copy between host and device takes as long as a bus would need. Owns nothing; the memory
 * is pinned meanwhile.
 */
#include "copy/copy.h"

#include <stdlib.h>
#include <string.h>

#include "memory/range.h"

#define BUS_BYTES_PER_MICROSECOND 12000u
#define PIECE SIM_GRANULARITY
#define SPARSE_FROM_BYTES SIM_KIB(64)

static bool is_zero(const unsigned char *at, uint64_t bytes)
{
	return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
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

static void copy_row(uint64_t dst, uint64_t src, uint64_t bytes)
{
	if (bytes < SPARSE_FROM_BYTES || (dst < src + bytes && src < dst + bytes)) {
		memmove(sim_reach(dst), sim_reach(src), bytes);
		return;
	}
	for (uint64_t done = 0; done < bytes; done += PIECE)
		copy_piece(dst + done, src + done, bytes - done < PIECE ? bytes - done : PIECE);
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

static void copy_rows(const struct sim_copy *given)
{
	struct sim_copy copy = *given;

	flatten(&copy);
	for (uint64_t z = 0; z < copy.depth; z++) {
		for (uint64_t y = 0; y < copy.height; y++)
			copy_row(copy.dst.address + z * copy.dst.slice + y * copy.dst.pitch,
				 copy.src.address + z * copy.src.slice + y * copy.src.pitch,
				 copy.width);
	}
}

CUresult sim_copy_run(struct CUctx_st *context, const struct sim_copy *copy)
{
	uint64_t start = sim_now_ns();
	struct sim_copy source = *copy;
	uint64_t src_extent, dst_extent;
	CUresult result;

	if (copy->width == 0 || copy->height == 0 || copy->depth == 0)
		return CUDA_SUCCESS;
	if (copy->staged)
		source.src.address = (uint64_t)(uintptr_t)copy->staged;
	src_extent = extent(&source.src, copy);
	dst_extent = extent(&source.dst, copy);
	result = sim_pin(context, source.src.address, src_extent, SIM_READ, copy->src.host, true);
	if (result != CUDA_SUCCESS)
		return result;
	result = sim_pin(context, source.dst.address, dst_extent, SIM_WRITE, copy->dst.host, true);
	if (result == CUDA_SUCCESS) {
		copy_rows(&source);
		sim_unpin(source.dst.address, dst_extent);
	}
	sim_unpin(source.src.address, src_extent);
	if (result == CUDA_SUCCESS && copy->over_bus)
		sim_sleep_until_ns(start + copy->width * copy->height * copy->depth * 1000 /
						   BUS_BYTES_PER_MICROSECOND);
	return result;
}
