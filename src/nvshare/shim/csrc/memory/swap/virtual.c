/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the program's reservations of addresses and its mappings in them. `lock` protects both and
 * is held over the whole of a call, the driver's part and the wait for the mover included: of two
 * calls about the same addresses the second finds what the first one did. The mover never takes it.
 */
#include "memory/swap/virtual.h"

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunks.h"
#include "memory/swap/handles.h"
#include "memory/swap/peers.h"
#include "memory/swap/runs.h"
#include "memory/swap/spans.h"
#include "process/mutex.h"

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_VIRTUAL);
static struct nvs_spans reservations;
static struct nvs_spans mappings; /* of: the handle; NULL: one of the driver's */

/* With the lock held: a mapping, where one was looked for and the next ones, begins before that. */
static bool is_before(const struct nvs_span *span, CUdeviceptr end)
{
	return span && span < mappings.all + mappings.count && span->start < end;
}

CUresult nvs_virtual_reserve(CUdeviceptr *start, size_t bytes, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags)
{
	CUresult result = NVS_CALL(cuMemAddressReserve, start, bytes, alignment, wanted, flags);

	if (result != CUDA_SUCCESS)
		return result;
	nvs_mutex_lock(&lock);
	if (!nvs_spans_add(&reservations, *start, bytes, NULL))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	nvs_mutex_unlock(&lock);
	if (result != CUDA_SUCCESS)
		NVS_CALL(cuMemAddressFree, *start, bytes);
	return result;
}

CUresult nvs_virtual_free(CUdeviceptr start, size_t bytes)
{
	struct nvs_span *reservation;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct nvs_allocation allocation;

	NVS_HOLD(&lock);
	/* The driver does not know of what is out: mappings, and plain memory of ours. */
	if (!nvs_spans_touch(&mappings, start, bytes) && !nvs_allocation_find(start, &allocation))
		result = NVS_CALL(cuMemAddressFree, start, bytes);
	reservation = nvs_spans_at(&reservations, start);
	if (result == CUDA_SUCCESS && reservation)
		nvs_spans_remove(&reservations, reservation);
	return result;
}

bool nvs_virtual_ours(CUdeviceptr start, size_t bytes)
{
	struct nvs_allocation allocation;

	NVS_HOLD(&lock);
	for (const struct nvs_span *span = nvs_spans_from(&mappings, start);
	     is_before(span, start + bytes); span++)
		if (span->of)
			return true;
	return nvs_allocation_find(start, &allocation);
}

/* Calls a function of chunks.c for each chunk of a mapping, which nobody moves meanwhile. */
#define EACH_CHUNK(mapping, result, call)                                                        \
	for (size_t i_ = 0;                                                                      \
	     (result) == CUDA_SUCCESS && i_ < ((struct nvs_handle *)(mapping)->of)->run->count;  \
	     i_++) {                                                                             \
		struct nvs_chunk *chunk = ((struct nvs_handle *)(mapping)->of)->run->chunks[i_]; \
		CUdeviceptr at = (mapping)->start + i_ * (uint64_t)NVS_CHUNK_BYTES;              \
                                                                                                 \
		nvs_chunk_enter(chunk);                                                          \
		(result) = call;                                                                 \
		nvs_chunk_leave(chunk);                                                          \
	}

/* Unmaps what is mapped of a span; the driver's refusal of one leaves the others unmapped. */
static CUresult unmap_chunks(const struct nvs_span *span)
{
	CUresult first = CUDA_SUCCESS;

	for (size_t i = 0; i < ((struct nvs_handle *)span->of)->run->count; i++) {
		struct nvs_chunk *chunk = ((struct nvs_handle *)span->of)->run->chunks[i];
		CUresult result;

		nvs_chunk_enter(chunk);
		result = nvs_chunk_unmap(chunk, span->start + i * (uint64_t)NVS_CHUNK_BYTES);
		nvs_chunk_leave(chunk);
		first = first != CUDA_SUCCESS ? first : result;
	}
	return first;
}

/* With the lock held. */
static CUresult map_chunks(struct nvs_handle *handle, CUdeviceptr start)
{
	struct nvs_span span = { start, handle->bytes, handle };
	CUresult result = CUDA_SUCCESS;

	if (!nvs_spans_add(&mappings, start, handle->bytes, handle))
		return CUDA_ERROR_OUT_OF_MEMORY;
	EACH_CHUNK(&span, result, nvs_chunk_map(chunk, at, false))
	if (result == CUDA_SUCCESS && nvs_allocation_note(handle->device, start, handle->bytes))
		return result;
	unmap_chunks(&span);
	nvs_spans_remove(&mappings, nvs_spans_at(&mappings, start));
	return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_range(CUdeviceptr start, size_t bytes)
{
	return bytes && bytes % NVS_GRANULE_BYTES == 0 && start % NVS_GRANULE_BYTES == 0 &&
	       start + bytes > start;
}

CUresult nvs_virtual_map(struct nvs_handle *handle, CUdeviceptr start, size_t bytes, size_t offset,
			 unsigned long long flags)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!is_range(start, bytes) || flags)
		return result;
	/* Drivers map a handle whole, so far. */
	if (offset || bytes != handle->bytes)
		return CUDA_ERROR_NOT_SUPPORTED;
	nvs_mutex_lock(&lock);
	if (nvs_spans_cover(&reservations, start, bytes) &&
	    !nvs_spans_touch(&mappings, start, bytes))
		result = map_chunks(handle, start);
	nvs_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		nvs_handle_hold(handle);
	return result;
}

void nvs_virtual_mapped(CUdeviceptr start, size_t bytes)
{
	NVS_HOLD(&lock);
	if (!nvs_spans_touch(&mappings, start, bytes))
		nvs_spans_add(&mappings, start, bytes, NULL);
}

/* With the lock held. */
static CUresult unmap_next(struct nvs_span *span,
			   CUresult (*foreign)(CUdeviceptr start, size_t bytes))
{
	struct nvs_handle *handle = span->of;
	CUresult result;

	if (handle) {
		nvs_allocation_forget(span->start);
		result = unmap_chunks(span);
	} else {
		result = foreign(span->start, span->bytes);
	}
	if (result == CUDA_SUCCESS)
		nvs_spans_remove(&mappings, span);
	if (result == CUDA_SUCCESS && handle)
		nvs_handle_put(handle);
	return result;
}

CUresult nvs_virtual_unmap(CUdeviceptr start, size_t bytes,
			   CUresult (*foreign)(CUdeviceptr start, size_t bytes))
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct nvs_span *span;

	if (!is_range(start, bytes))
		return result;
	NVS_HOLD(&lock);
	if (nvs_spans_cover(&reservations, start, bytes) &&
	    nvs_spans_whole(&mappings, start, bytes))
		result = CUDA_SUCCESS;
	while (result == CUDA_SUCCESS &&
	       is_before(span = nvs_spans_from(&mappings, start), start + bytes))
		result = unmap_next(span, foreign);
	return result;
}

void nvs_virtual_unmapped(CUdeviceptr start, size_t bytes)
{
	struct nvs_span *span;

	NVS_HOLD(&lock);
	while (is_before(span = nvs_spans_from(&mappings, start), start + bytes))
		nvs_spans_remove(&mappings, span);
}

/*
 * With the lock held: whole mappings begin and end where these addresses do. What is between them
 * does not matter to the driver.
 */
static bool are_mapped(CUdeviceptr start, size_t bytes)
{
	return nvs_spans_at(&mappings, start) && nvs_spans_at(&mappings, start + bytes - 1) &&
	       nvs_spans_whole(&mappings, start, bytes);
}

/* Who may reach a mapping, as a driver takes it (580, an H200). */

static bool device_exists(int ordinal)
{
	int devices = 0;

	NVS_CALL(cuDeviceGetCount, &devices);
	return ordinal >= 0 && ordinal < devices && ordinal < NVS_MAX_DEVICES;
}

/* What the driver says of one device's access. */
static CUresult check(const CUmemAccessDesc_v1 *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type == CU_MEM_LOCATION_TYPE_HOST)
		return CUDA_ERROR_NOT_SUPPORTED;
	return desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			       device_exists(desc->location.id)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_all(const CUmemAccessDesc_v1 *desc, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = check(&desc[i]);
	return result;
}

/* And when it is memory of that device, which not every other one can reach. */
static CUresult check_peers(const struct nvs_device *owner, const CUmemAccessDesc_v1 *desc,
			    size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int can = 1;

		if (desc[i].location.id != owner->ordinal &&
		    desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    NVS_CALL(cuDeviceCanAccessPeer, &can, desc[i].location.id, owner->ordinal) ==
			    CUDA_SUCCESS &&
		    !can)
			return CUDA_ERROR_INVALID_DEVICE;
	}
	return CUDA_SUCCESS;
}

/* With the lock held. */
static CUresult set_access_of(const struct nvs_span *span, const CUmemAccessDesc_v1 *desc,
			      size_t count)
{
	CUresult result;

	if (!span->of)
		return NVS_CALL(cuMemSetAccess, span->start, span->bytes, desc, count);
	result = check_peers(((struct nvs_handle *)span->of)->device, desc, count);
	EACH_CHUNK(span, result, nvs_chunk_change_access(chunk, at, desc, count))
	return result;
}

/* The devices that may reach memory of the owners now have to wait for these ones' turns too. */
static void note_users(uint64_t owners, const CUmemAccessDesc_v1 *desc, size_t count)
{
	uint64_t users = 0;

	for (size_t i = 0; i < count; i++)
		if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			users |= 1ULL << desc[i].location.id;
	NVS_EACH_DEVICE(owner, owners)
		nvs_peers_reach(owner, users);
}

CUresult nvs_virtual_set_access(CUdeviceptr start, size_t bytes, const CUmemAccessDesc_v1 *desc,
				size_t count)
{
	uint64_t owners = 0;
	CUresult result = desc && count && bytes && start + bytes > start
				  ? CUDA_SUCCESS
				  : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		result = check_all(desc, count);
	if (result != CUDA_SUCCESS)
		return result;
	nvs_mutex_lock(&lock);
	if (!are_mapped(start, bytes))
		result = CUDA_ERROR_INVALID_VALUE;
	for (const struct nvs_span *span = nvs_spans_from(&mappings, start);
	     result == CUDA_SUCCESS && is_before(span, start + bytes); span++) {
		result = set_access_of(span, desc, count);
		if (span->of)
			owners |= 1ULL << ((struct nvs_handle *)span->of)->device->ordinal;
	}
	nvs_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		note_users(owners, desc, count);
	return result;
}

CUresult nvs_virtual_get_access(unsigned long long *flags, const CUmemLocation_v1 *location,
				CUdeviceptr address)
{
	struct nvs_access access = { 0 };
	const struct nvs_span *span;
	struct nvs_chunk *chunk;

	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !device_exists(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	NVS_HOLD(&lock);
	span = nvs_spans_at(&mappings, address);
	if (!span || !span->of)
		return CUDA_ERROR_INVALID_VALUE;
	chunk = ((struct nvs_handle *)span->of)->run->chunks[0];
	nvs_chunk_enter(chunk);
	nvs_chunk_access(chunk, span->start, &access);
	nvs_chunk_leave(chunk);
	*flags = nvs_access_flags(&access, location->id);
	return CUDA_SUCCESS;
}

struct nvs_handle *nvs_virtual_handle(CUdeviceptr address)
{
	const struct nvs_span *span;

	NVS_HOLD(&lock);
	span = nvs_spans_at(&mappings, address);
	if (!span || !span->of)
		return NULL;
	nvs_handle_hold(span->of);
	return span->of;
}

bool nvs_virtual_pin(CUdeviceptr start, uint64_t bytes)
{
	NVS_HOLD(&lock);
	for (const struct nvs_span *span = nvs_spans_from(&mappings, start);
	     is_before(span, start + bytes); span++) {
		uint64_t from = span->start < start ? start - span->start : 0;

		if (span->of && !nvs_run_pin(((struct nvs_handle *)span->of)->run, from,
					     start + bytes - span->start - from))
			return false;
	}
	return true;
}

void nvs_virtual_reservation(CUdeviceptr address, CUdeviceptr *start, uint64_t *bytes)
{
	const struct nvs_span *reservation;

	NVS_HOLD(&lock);
	reservation = nvs_spans_at(&reservations, address);
	if (reservation) {
		*start = reservation->start;
		*bytes = reservation->bytes;
	}
}

void nvs_virtual_forked(void)
{
	nvs_mutex_forked(&lock);
	reservations = mappings = (struct nvs_spans){ 0 };
}
