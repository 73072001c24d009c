/* SPDX-License-Identifier: Apache-2.0 */
/* Pins what operations touch, if their device may. Protected by sim.lock. */
#include "memory/paging.h"
#include "memory/range.h"

/* Whether a device's kernels and copies may touch a range. */
static bool may_touch(const struct CUctx_st *context, const struct sim_range *range,
		      enum sim_access access, bool any_device)
{
	switch (range->kind) {
	case SIM_RANGE_MAPPED:
		return (range->access[context->device] & access) == access;
	case SIM_RANGE_DEVICE:
		if (range->device == context->device || any_device ||
		    context->peers >> range->device & 1)
			return true;
		return range->pool && (range->access[context->device] & access) == access;
	case SIM_RANGE_MANAGED:
	case SIM_RANGE_HOST:
	case SIM_RANGE_REGISTERED:
		return true;
	case SIM_RANGE_RESERVED:
		break;
	}
	return false;
}

static void unpin_locked(struct CUctx_st *context, uint64_t address, uint64_t end)
{
	for (struct sim_range *range = sim_range_next_locked(address); range && range->start < end;
	     range = sim_range_next_locked(range->start + range->span)) {
		range->pins--;
		if (range->lost)
			sim_context_fail(context, CUDA_ERROR_ILLEGAL_ADDRESS);
	}
	pthread_cond_broadcast(&sim.changed);
}

/* Whether [at, end), as far as it lies in the range, may be touched. */
static bool is_right(const struct CUctx_st *context, const struct sim_range *range, uint64_t at,
		     uint64_t end, enum sim_access access, bool any_device)
{
	uint64_t limit = range->start + range->bytes;

	if (range->going || at >= limit || (end > limit && range->bytes < range->span))
		return false;
	return may_touch(context, range, access, any_device);
}

/*
 * Pins one range after another until the end; between them there may be host memory that was not
 * registered.
 */
static CUresult pin_locked(struct CUctx_st *context, uint64_t address, uint64_t end,
			   enum sim_access access, bool host_allowed, bool any_device)
{
	uint64_t at = address;

	while (at < end) {
		struct sim_range *range = sim_range_next_locked(at);

		if (host_allowed && !sim_window_contains(at) && (!range || range->start > at)) {
			at = range ? range->start : end;
			continue;
		}
		if (!range || range->start > at ||
		    !is_right(context, range, at, end, access, any_device)) {
			unpin_locked(context, address, at);
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
		range->pins++;
		at = range->start + range->span;
	}
	return CUDA_SUCCESS;
}

CUresult sim_pin(struct CUctx_st *context, uint64_t address, uint64_t bytes, enum sim_access access,
		 bool host_allowed, bool any_device)
{
	CUresult result = CUDA_ERROR_ILLEGAL_ADDRESS;
	struct sim_paging paging = { 0, 0 };

	sim_lock();
	if (address + bytes >= address)
		result = pin_locked(context, address, address + bytes, access, host_allowed,
				    any_device);
	if (result == CUDA_SUCCESS)
		paging = sim_paging_touch_locked(context->device, address, address + bytes);
	sim_unlock();
	sim_paging_wait(context->device, paging, SIM_CARGO_PAGES);
	return result;
}

void sim_unpin(struct CUctx_st *context, uint64_t address, uint64_t bytes)
{
	sim_lock();
	unpin_locked(context, address, address + bytes);
	sim_unlock();
}
