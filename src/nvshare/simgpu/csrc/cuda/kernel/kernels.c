/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that the simulated devices know; simgpu/kernels.ptx has the same ones for a real GPU,
 * but the last two. A module may name any of them as an `.entry` of its PTX text. What they do does
 * not depend on the grid.
 *
 *   nvs_axpy(f32 a, ptr x, ptr y, u64 n)       y[i] = a * x[i] + y[i], float
 *   nvs_fill_f32(ptr p, f32 value, u64 n)      p[i] = value
 *   nvs_fill_u32(ptr p, u32 value, u64 n)      p[i] = value
 *   nvs_reduce_sum_f32(ptr x, ptr sum, u64 n)  *sum += x[0] + ... + x[n - 1], in double
 *   nvs_increment_u64(ptr p)                   *p += 1, once a launch
 *   nvs_spin(u64 ns)                           occupies the device for that time
 *   nvs_touch(ptr p, u64 bytes, u64 ns)        the same, and reads that memory all the time
 *   nvs_stamp_u64(ptr p, u64 seed, u64 n, u64 stride)
 *                                              p[i * stride] = seed xor (i * an odd constant)
 *   nvs_count_wrong_u64(ptr p, u64 seed, u64 n, u64 stride, ptr wrong)
 *                                              *wrong += how many of these are not so
 *   nvs_meet_u64(ptr page, u64 rank, u64 ranks, u64 round, u64 value, ptr sum)
 *                                              waits until this round's kernels of all ranks run,
 *                                              on whatever device and in whatever process: an
 *                                              all-reduce of *sum + value. Rounds count from 1, and
 *                                              `page` is memory that all share: for each rank 4
 *                                              words, which are 0 at first
 *   nvs_hash_contents, nvs_clear_contents      nvshare's own, in contents.c
 *
 * Owns nothing; the memory is pinned meanwhile.
 */
#include "kernel/kernels.h"

#include <string.h>

#include "cuda/contents.h"
#include "kernel/contents.h"
#include "memory/range.h"

#define STAMP_FACTOR 0x9e3779b97f4a7c15ull
#define MEETING_WORDS 4
#define MOST_RANKS 64
#define LOOK_EVERY_NS 20000

struct meeting {
	uint64_t page, rank, ranks, round;
};

/* The parameters may be unaligned. */
static uint64_t get_u64(const unsigned char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint32_t get_u32(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static float get_f32(const unsigned char *at)
{
	float value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* Pins an array of n elements. A misaligned address is an error of its own, as on hardware. */
static CUresult take(struct CUctx_st *context, uint64_t address, uint64_t n, uint64_t size,
		     enum sim_access access)
{
	if (address % size != 0)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	if (n > UINT64_MAX / size)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	return sim_pin(context, address, n * size, access, false, false);
}

static CUresult axpy(struct CUctx_st *context, const unsigned char *parameters)
{
	float a = get_f32(parameters);
	uint64_t x_address = get_u64(parameters + 8);
	uint64_t y_address = get_u64(parameters + 16);
	uint64_t n = get_u64(parameters + 24);
	CUresult result = take(context, x_address, n, sizeof(float), SIM_READ);
	const float *x = sim_reach(x_address);
	float *y = sim_reach(y_address);

	if (result != CUDA_SUCCESS)
		return result;
	result = take(context, y_address, n, sizeof(float), SIM_WRITE);
	if (result == CUDA_SUCCESS) {
		for (uint64_t i = 0; i < n; i++) {
			/* rounded before the addition, as in kernels.ptx */
			float product = a * x[i];

			y[i] += product;
		}
		sim_unpin(context, y_address, n * sizeof(float));
	}
	sim_unpin(context, x_address, n * sizeof(float));
	return result;
}

static CUresult fill(struct CUctx_st *context, const unsigned char *parameters)
{
	uint64_t address = get_u64(parameters);
	uint32_t value = get_u32(parameters + 8);
	uint64_t n = get_u64(parameters + 16);
	uint32_t *p = sim_reach(address);
	CUresult result = take(context, address, n, sizeof(uint32_t), SIM_WRITE);

	if (result != CUDA_SUCCESS)
		return result;
	for (uint64_t i = 0; i < n; i++)
		p[i] = value;
	sim_unpin(context, address, n * sizeof(uint32_t));
	return CUDA_SUCCESS;
}

static CUresult reduce_sum(struct CUctx_st *context, const unsigned char *parameters)
{
	uint64_t x_address = get_u64(parameters);
	uint64_t sum_address = get_u64(parameters + 8);
	uint64_t n = get_u64(parameters + 16);
	CUresult result = take(context, x_address, n, sizeof(float), SIM_READ);
	const float *x = sim_reach(x_address);
	double *sum = sim_reach(sum_address);

	if (result != CUDA_SUCCESS)
		return result;
	result = take(context, sum_address, 1, sizeof(double), SIM_WRITE);
	if (result == CUDA_SUCCESS) {
		double partial = 0;

		for (uint64_t i = 0; i < n; i++)
			partial += (double)x[i];
		*sum += partial;
		sim_unpin(context, sum_address, sizeof(double));
	}
	sim_unpin(context, x_address, n * sizeof(float));
	return result;
}

static CUresult increment(struct CUctx_st *context, const unsigned char *parameters)
{
	uint64_t address = get_u64(parameters);
	_Atomic uint64_t *p = sim_reach(address);
	CUresult result = take(context, address, 1, sizeof(uint64_t), SIM_WRITE);

	if (result != CUDA_SUCCESS)
		return result;
	atomic_fetch_add(p, 1);
	sim_unpin(context, address, sizeof(uint64_t));
	return CUDA_SUCCESS;
}

static CUresult spin(struct CUctx_st *context, const unsigned char *parameters)
{
	(void)context;
	sim_sleep_until_ns(sim_now_ns() + get_u64(parameters));
	return CUDA_SUCCESS;
}

static CUresult touch(struct CUctx_st *context, const unsigned char *parameters)
{
	uint64_t start = sim_now_ns();
	uint64_t address = get_u64(parameters);
	uint64_t bytes = get_u64(parameters + 8);
	CUresult result = take(context, address, bytes, 1, SIM_READ);

	if (result != CUDA_SUCCESS)
		return result;
	sim_sleep_until_ns(start + get_u64(parameters + 16));
	sim_unpin(context, address, bytes);
	return CUDA_SUCCESS;
}

/* How many bytes n words span that are `stride` words apart; UINT64_MAX: more than there are. */
static uint64_t strided_bytes(uint64_t n, uint64_t stride)
{
	uint64_t bytes;

	if (n == 0)
		return 0;
	if (__builtin_mul_overflow(n - 1, stride, &bytes) ||
	    __builtin_add_overflow(bytes, 1, &bytes) ||
	    __builtin_mul_overflow(bytes, sizeof(uint64_t), &bytes))
		return UINT64_MAX;
	return bytes;
}

static CUresult stamp(struct CUctx_st *context, const unsigned char *parameters)
{
	uint64_t address = get_u64(parameters);
	uint64_t seed = get_u64(parameters + 8);
	uint64_t n = get_u64(parameters + 16);
	uint64_t stride = get_u64(parameters + 24);
	uint64_t bytes = strided_bytes(n, stride);
	uint64_t *p = sim_reach(address);
	CUresult result = take(context, address, bytes / 8, sizeof(uint64_t), SIM_WRITE);

	if (result != CUDA_SUCCESS)
		return result;
	for (uint64_t i = 0; i < n; i++)
		p[i * stride] = seed ^ (i * STAMP_FACTOR);
	sim_unpin(context, address, bytes);
	return CUDA_SUCCESS;
}

static CUresult count_wrong(struct CUctx_st *context, const unsigned char *parameters)
{
	uint64_t address = get_u64(parameters);
	uint64_t seed = get_u64(parameters + 8);
	uint64_t n = get_u64(parameters + 16);
	uint64_t stride = get_u64(parameters + 24);
	uint64_t wrong_address = get_u64(parameters + 32);
	uint64_t bytes = strided_bytes(n, stride);
	_Atomic uint64_t *wrong = sim_reach(wrong_address);
	const uint64_t *p = sim_reach(address);
	CUresult result = take(context, address, bytes / 8, sizeof(uint64_t), SIM_READ);

	if (result != CUDA_SUCCESS)
		return result;
	result = take(context, wrong_address, 1, sizeof(uint64_t), SIM_WRITE);
	if (result == CUDA_SUCCESS) {
		for (uint64_t i = 0; i < n; i++)
			atomic_fetch_add(wrong, p[i * stride] != (seed ^ (i * STAMP_FACTOR)));
		sim_unpin(context, wrong_address, sizeof(uint64_t));
	}
	sim_unpin(context, address, bytes);
	return result;
}

/* A rank has its round in the first word, and what it adds in the next or the one after. */
static CUresult meet_ranks(struct CUctx_st *context, const struct meeting *meeting, uint64_t value,
			   uint64_t *total)
{
	_Atomic uint64_t *page = sim_reach(meeting->page);
	uint64_t place = 1 + meeting->round % 2;

	atomic_store(&page[meeting->rank * MEETING_WORDS + place], value);
	atomic_store(&page[meeting->rank * MEETING_WORDS], meeting->round);
	for (uint64_t rank = 0; rank < meeting->ranks; rank++) {
		_Atomic uint64_t *words = &page[rank * MEETING_WORDS];

		while (atomic_load(&words[0]) < meeting->round) {
			if (atomic_load(&context->error) != CUDA_SUCCESS)
				return atomic_load(&context->error);
			sim_sleep_until_ns(sim_now_ns() + LOOK_EVERY_NS);
		}
		*total += atomic_load(&words[place]);
	}
	return CUDA_SUCCESS;
}

static CUresult meet(struct CUctx_st *context, const unsigned char *parameters)
{
	struct meeting meeting = { .page = get_u64(parameters),
				   .rank = get_u64(parameters + 8),
				   .ranks = get_u64(parameters + 16),
				   .round = get_u64(parameters + 24) };
	uint64_t value = get_u64(parameters + 32), total = 0;
	uint64_t sum_address = get_u64(parameters + 40);
	uint64_t *sum = sim_reach(sum_address);
	CUresult result;

	if (meeting.rank >= meeting.ranks || meeting.ranks > MOST_RANKS)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	result = take(context, meeting.page, meeting.ranks * MEETING_WORDS, sizeof(uint64_t),
		      SIM_WRITE);
	if (result != CUDA_SUCCESS)
		return result;
	result = take(context, sum_address, 1, sizeof(uint64_t), SIM_WRITE);
	if (result == CUDA_SUCCESS) {
		result = meet_ranks(context, &meeting, *sum + value, &total);
		if (result == CUDA_SUCCESS)
			*sum = *sum * STAMP_FACTOR + total;
		sim_unpin(context, sum_address, sizeof(uint64_t));
	}
	sim_unpin(context, meeting.page, meeting.ranks * MEETING_WORDS * sizeof(uint64_t));
	return result;
}

static const struct sim_kernel kernels[] = {
	{ "nvs_axpy", 4, { 4, 8, 8, 8 }, axpy },
	{ "nvs_fill_f32", 3, { 8, 4, 8 }, fill },
	{ "nvs_fill_u32", 3, { 8, 4, 8 }, fill },
	{ "nvs_reduce_sum_f32", 3, { 8, 8, 8 }, reduce_sum },
	{ "nvs_increment_u64", 1, { 8 }, increment },
	{ "nvs_spin", 1, { 8 }, spin },
	{ "nvs_touch", 3, { 8, 8, 8 }, touch },
	{ "nvs_stamp_u64", 4, { 8, 8, 8, 8 }, stamp },
	{ "nvs_count_wrong_u64", 5, { 8, 8, 8, 8, 8 }, count_wrong },
	{ "nvs_meet_u64", 6, { 8, 8, 8, 8, 8, 8 }, meet },
	{ NVS_HASH_KERNEL, 5, { sizeof(struct nvs_hash_key), 8, 8, 8, 8 }, sim_hash_contents },
	{ NVS_CLEAR_KERNEL, 3, { 8, 8, 8 }, sim_clear_contents },
};

const struct sim_kernel *sim_kernel_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		if (strcmp(kernels[i].name, name) == 0)
			return &kernels[i];
	}
	return NULL;
}

unsigned int sim_kernel_offset(const struct sim_kernel *kernel, unsigned int index)
{
	unsigned int offset = 0;

	for (unsigned int i = 0; i <= index; i++) {
		offset = (unsigned int)sim_round_up(offset, kernel->sizes[i]);
		if (i < index)
			offset += kernel->sizes[i];
	}
	return offset;
}

unsigned int sim_kernel_parameter_bytes(const struct sim_kernel *kernel)
{
	unsigned int last = kernel->parameter_count - 1;

	return sim_kernel_offset(kernel, last) + kernel->sizes[last];
}
