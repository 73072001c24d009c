/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver does for one chunk. No state, no lock: a chunk is in one thread's hand.
 */
#include "memory/swap/chunk.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "gate/device.h"

/* Who is in `none` and not in `access` may not reach it any more. */
static CUresult grant(const struct nvs_chunk *chunk, CUdeviceptr address,
		      const struct nvs_access *access, uint64_t none)
{
	CUmemAccessDesc_v1 descriptions[NVS_MAX_DEVICES];
	size_t count = 0;

	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++) {
		CUmemAccessDesc_v1 *description = &descriptions[count];
		uint64_t bit = 1ULL << ordinal;

		if (!((access->read_write | access->read_only | none) & bit))
			continue;
		description->location = (CUmemLocation_v1){ CU_MEM_LOCATION_TYPE_DEVICE, ordinal };
		description->flags = access->read_write & bit  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				     : access->read_only & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
							       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		count++;
	}
	return count ? NVS_CALL(cuMemSetAccess, address, chunk->bytes, descriptions, count)
		     : CUDA_SUCCESS;
}

static uint64_t own_bit(const struct nvs_chunk *chunk)
{
	return 1ULL << chunk->device->ordinal;
}

static struct nvs_access access_of(const struct nvs_chunk *chunk, const struct nvs_mapping *mapping)
{
	return mapping->plain ? (struct nvs_access){ .read_write = own_bit(chunk) | chunk->peers }
			      : mapping->access;
}

/* The chunk has device memory. */
static CUresult map(const struct nvs_chunk *chunk, const struct nvs_mapping *mapping)
{
	struct nvs_access access = access_of(chunk, mapping);
	CUresult result = NVS_CALL(cuMemMap, mapping->address, chunk->bytes, 0, chunk->handle, 0);

	if (result != CUDA_SUCCESS)
		return result;
	result = grant(chunk, mapping->address, &access, 0);
	if (result != CUDA_SUCCESS)
		NVS_CALL(cuMemUnmap, mapping->address, chunk->bytes);
	return result;
}

/* All mappings up to `end`. */
static void unmap_until(const struct nvs_chunk *chunk, const struct nvs_mapping *end)
{
	for (const struct nvs_mapping *mapping = chunk->mappings; mapping != end;
	     mapping = mapping->next)
		NVS_CALL(cuMemUnmap, mapping->address, chunk->bytes);
}

static void release(struct nvs_chunk *chunk)
{
	NVS_CALL(cuMemRelease, chunk->handle);
	chunk->handle = 0;
}

CUresult nvs_chunk_make_memory(struct nvs_chunk *chunk)
{
	CUresult result;

	/* What the driver did not take back is there. */
	if (nvs_chunk_is_managed(chunk) || chunk->handle)
		return CUDA_SUCCESS;
	result = NVS_CALL(cuMemCreate, &chunk->handle, chunk->bytes, &chunk->prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	for (const struct nvs_mapping *mapping = chunk->mappings; mapping;
	     mapping = mapping->next) {
		result = map(chunk, mapping);
		if (result != CUDA_SUCCESS) {
			unmap_until(chunk, mapping);
			release(chunk);
			return result;
		}
	}
	return CUDA_SUCCESS;
}

void nvs_chunk_drop_memory(struct nvs_chunk *chunk)
{
	if (!chunk->handle)
		return;
	nvs_chunk_close_window(chunk);
	unmap_until(chunk, NULL);
	release(chunk);
}

/* Maps it again where it was mapped before `end`. */
static void map_until(const struct nvs_chunk *chunk, const struct nvs_mapping *end)
{
	for (const struct nvs_mapping *mapping = chunk->mappings; mapping != end;
	     mapping = mapping->next)
		map(chunk, mapping);
}

CUresult nvs_chunk_give_memory(struct nvs_chunk *chunk)
{
	const struct nvs_mapping *mapping = chunk->mappings;
	CUresult result;

	if (!chunk->handle)
		return CUDA_SUCCESS;
	result = nvs_chunk_close_window(chunk);
	while (result == CUDA_SUCCESS && mapping) {
		result = NVS_CALL(cuMemUnmap, mapping->address, chunk->bytes);
		if (result == CUDA_SUCCESS)
			mapping = mapping->next;
	}
	if (result == CUDA_SUCCESS)
		result = NVS_CALL(cuMemRelease, chunk->handle);
	if (result == CUDA_SUCCESS)
		chunk->handle = 0;
	else
		map_until(chunk, mapping);
	return result;
}

CUresult nvs_chunk_close_window(struct nvs_chunk *chunk)
{
	CUresult result = CUDA_SUCCESS;

	if (chunk->window)
		result = NVS_CALL(cuMemUnmap, chunk->window, chunk->bytes);
	if (chunk->window && result == CUDA_SUCCESS) {
		NVS_CALL(cuMemAddressFree, chunk->window, chunk->bytes);
		chunk->window = 0;
	}
	return result;
}

static bool open_window(struct nvs_chunk *chunk)
{
	struct nvs_mapping mapping = { .access.read_write = own_bit(chunk) };

	if (NVS_CALL(cuMemAddressReserve, &mapping.address, chunk->bytes, 0, 0, 0) != CUDA_SUCCESS)
		return false;
	if (map(chunk, &mapping) != CUDA_SUCCESS) {
		NVS_CALL(cuMemAddressFree, mapping.address, chunk->bytes);
		return false;
	}
	chunk->window = mapping.address;
	return true;
}

CUdeviceptr nvs_chunk_address(struct nvs_chunk *chunk)
{
	for (const struct nvs_mapping *mapping = chunk->mappings; mapping; mapping = mapping->next)
		if (access_of(chunk, mapping).read_write & own_bit(chunk))
			return mapping->address;
	return chunk->window || open_window(chunk) ? chunk->window : 0;
}

static struct nvs_mapping **find(struct nvs_chunk *chunk, CUdeviceptr address)
{
	struct nvs_mapping **link = &chunk->mappings;

	while (*link && (*link)->address != address)
		link = &(*link)->next;
	return link;
}

static struct nvs_mapping *make_mapping(struct nvs_chunk *chunk)
{
	for (const struct nvs_mapping *mapping = chunk->mappings; mapping; mapping = mapping->next)
		if (mapping == &chunk->first)
			return malloc(sizeof(*mapping));
	return &chunk->first;
}

static void drop_mapping(struct nvs_chunk *chunk, struct nvs_mapping *mapping)
{
	if (mapping != &chunk->first)
		free(mapping);
}

CUresult nvs_chunk_map(struct nvs_chunk *chunk, CUdeviceptr address, bool plain)
{
	struct nvs_mapping *mapping = make_mapping(chunk);
	CUresult result;

	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*mapping = (struct nvs_mapping){ .address = address, .plain = plain };
	result = chunk->handle ? map(chunk, mapping) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS) {
		drop_mapping(chunk, mapping);
		return result;
	}
	mapping->next = chunk->mappings;
	chunk->mappings = mapping;
	return CUDA_SUCCESS;
}

CUresult nvs_chunk_unmap(struct nvs_chunk *chunk, CUdeviceptr address)
{
	struct nvs_mapping **link = find(chunk, address), *mapping = *link;
	CUresult result = CUDA_SUCCESS;

	if (!mapping)
		return CUDA_ERROR_INVALID_VALUE;
	if (chunk->handle)
		result = NVS_CALL(cuMemUnmap, address, chunk->bytes);
	if (result != CUDA_SUCCESS)
		return result;
	*link = mapping->next;
	drop_mapping(chunk, mapping);
	return CUDA_SUCCESS;
}

CUresult nvs_chunk_set_access(struct nvs_chunk *chunk, CUdeviceptr address,
			      const struct nvs_access *access)
{
	struct nvs_mapping *mapping = *find(chunk, address);
	CUresult result = CUDA_SUCCESS;

	if (!mapping)
		return CUDA_ERROR_INVALID_VALUE;
	if (chunk->handle)
		result = grant(chunk, address, access,
			       mapping->access.read_write | mapping->access.read_only);
	if (result == CUDA_SUCCESS)
		mapping->access = *access;
	return result;
}

bool nvs_chunk_access(const struct nvs_chunk *chunk, CUdeviceptr address, struct nvs_access *access)
{
	for (const struct nvs_mapping *mapping = chunk->mappings; mapping; mapping = mapping->next)
		if (mapping->address == address) {
			*access = access_of(chunk, mapping);
			return true;
		}
	return false;
}

CUresult nvs_chunk_change_access(struct nvs_chunk *chunk, CUdeviceptr address,
				 const CUmemAccessDesc_v1 *desc, size_t count)
{
	struct nvs_access access = { 0 };

	nvs_chunk_access(chunk, address, &access);
	for (size_t i = 0; i < count; i++) {
		uint64_t bit = 1ull << desc[i].location.id;

		access.read_write &= ~bit;
		access.read_only &= ~bit;
		if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			access.read_write |= bit;
		else if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			access.read_only |= bit;
	}
	return nvs_chunk_set_access(chunk, address, &access);
}

unsigned long long nvs_access_flags(const struct nvs_access *access, int ordinal)
{
	if (access->read_write >> ordinal & 1)
		return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return access->read_only >> ordinal & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
						: CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

CUresult nvs_chunk_apply_peers(struct nvs_chunk *chunk, uint64_t before)
{
	CUresult result = CUDA_SUCCESS, one;

	for (const struct nvs_mapping *mapping = chunk->mappings; mapping;
	     mapping = mapping->next) {
		struct nvs_access access = access_of(chunk, mapping);

		if (!mapping->plain)
			continue;
		one = grant(chunk, mapping->address, &access, before);
		if (result == CUDA_SUCCESS)
			result = one;
	}
	return result;
}

void nvs_chunk_forget_mappings(struct nvs_chunk *chunk)
{
	while (chunk->mappings) {
		struct nvs_mapping *mapping = chunk->mappings;

		chunk->mappings = mapping->next;
		drop_mapping(chunk, mapping);
	}
}
