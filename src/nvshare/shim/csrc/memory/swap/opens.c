/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what is mapped of other processes' memory. `lock` protects the list and the counts; it is
 * signalled when a mapping is made, or could not be, or is gone. The driver is not called with the
 * lock held: who makes or ends a mapping has marked it as busy.
 */
#include "memory/swap/opens.h"

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/streams.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunks.h"
#include "memory/swap/exports.h"
#include "memory/swap/idle.h"
#include "memory/swap/parts.h"
#include "process/log.h"
#include "process/mutex.h"

struct opened {
	uint8_t key[NVS_WIRE_KEY_BYTES];
	struct nvs_device *owner;	  /* on which the memory is */
	struct nvs_allocation allocation; /* its device is the one that it was opened for */
	unsigned int count;
	bool busy;
	struct opened *next;
};

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_OPENS);
static struct opened *all;

static CUresult give_up(CUresult result, const char *why)
{
	nvs_log("memory of another process can't be opened: %s", why);
	return result;
}

/* Who may use the mapping: the device that it was opened for, and those that it was given to. */
static CUresult grant(const struct opened *opened)
{
	uint64_t users =
		1ULL << opened->allocation.device->ordinal | nvs_chunks_allowed(opened->owner);
	CUmemAccessDesc_v1 descriptions[NVS_MAX_DEVICES];
	size_t count = 0;

	for (int ordinal = 0; ordinal < NVS_MAX_DEVICES; ordinal++)
		if (users >> ordinal & 1)
			descriptions[count++] = (CUmemAccessDesc_v1){
				.location = { CU_MEM_LOCATION_TYPE_DEVICE, ordinal },
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			};
	return NVS_CALL(cuMemSetAccess, opened->allocation.mapping,
			opened->allocation.mapping_bytes, descriptions, count);
}

/* As it was mapped: part by part. */
static void unmap(const struct nvs_allocation *allocation, uint64_t mapped)
{
	for (uint64_t at = 0, part; at < mapped; at += part) {
		part = mapped - at < NVS_CHUNK_BYTES ? mapped - at : NVS_CHUNK_BYTES;
		NVS_CALL(cuMemUnmap, allocation->mapping + at, part);
	}
	NVS_CALL(cuMemAddressFree, allocation->mapping, allocation->mapping_bytes);
}

/* Memory of another device, or none at all, is not what the handle promises. */
static bool is_of(CUmemGenericAllocationHandle memory, const struct nvs_device *owner)
{
	CUmemAllocationProp_v1 prop;

	return NVS_CALL(cuMemGetAllocationPropertiesFromHandle, &prop, memory) == CUDA_SUCCESS &&
	       prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       prop.location.id == owner->ordinal;
}

/* The part's descriptor is closed. */
static CUresult map_part(const struct opened *opened, uint64_t at, struct nvs_part *part)
{
	CUmemGenericAllocationHandle memory;
	CUresult result = NVS_CALL(cuMemImportFromShareableHandle, &memory,
				   (void *)(intptr_t)nvs_file_number(&part->descriptor),
				   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	nvs_file_end(&part->descriptor);
	if (result != CUDA_SUCCESS)
		return give_up(result, "the driver does not import it");
	result = is_of(memory, opened->owner) ? NVS_CALL(cuMemMap, opened->allocation.mapping + at,
							 part->shared.part_bytes, 0, memory, 0)
					      : CUDA_ERROR_INVALID_HANDLE;
	/* From here on the mapping keeps it. */
	NVS_CALL(cuMemRelease, memory);
	return result;
}

/* What each part has to be, after what the first one says. */
static bool fits(const struct opened *opened, const struct nvs_part *part, uint32_t index,
		 uint64_t at)
{
	uint64_t bytes = opened->allocation.mapping_bytes, rest = bytes - at;
	uint64_t most = rest < NVS_CHUNK_BYTES ? rest : NVS_CHUNK_BYTES;

	return part->shared.index == index && part->shared.part_bytes == most &&
	       part->shared.count == (bytes + NVS_CHUNK_BYTES - 1) / NVS_CHUNK_BYTES;
}

static CUresult map_all(struct opened *opened, struct nvs_part *part, uint64_t *mapped)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t index = 0; *mapped < opened->allocation.mapping_bytes; index++) {
		if (index)
			result = nvs_part_ask(opened->owner, opened->key, index, part);
		if (result != CUDA_SUCCESS)
			return result;
		if (!fits(opened, part, index, *mapped)) {
			nvs_file_end(&part->descriptor);
			return give_up(CUDA_ERROR_INVALID_HANDLE, "it is not as large as it was");
		}
		result = map_part(opened, *mapped, part);
		if (result != CUDA_SUCCESS)
			return result;
		*mapped += part->shared.part_bytes;
	}
	return grant(opened);
}

/* Nobody else has the record in hand. */
static CUresult make(struct opened *opened, uint64_t bytes)
{
	struct nvs_allocation *allocation = &opened->allocation;
	struct nvs_part part;
	CUresult result = nvs_part_ask(opened->owner, opened->key, 0, &part);
	uint64_t offset, mapped = 0;

	if (result != CUDA_SUCCESS)
		return result;
	offset = part.shared.offset_bytes;
	/* A allocation begins in its first chunk, and only one that shares a chunk not at its
	 * start. */
	if (offset >= NVS_GRANULE_BYTES || !bytes || bytes > 1ULL << 50) {
		nvs_file_end(&part.descriptor);
		return give_up(CUDA_ERROR_INVALID_HANDLE, "what is said of it can't be");
	}
	allocation->bytes = bytes;
	allocation->mapping_bytes =
		(offset + bytes + NVS_GRANULE_BYTES - 1) / NVS_GRANULE_BYTES * NVS_GRANULE_BYTES;
	result = NVS_CALL(cuMemAddressReserve, &allocation->mapping, allocation->mapping_bytes, 0,
			  0, 0);
	if (result != CUDA_SUCCESS) {
		nvs_file_end(&part.descriptor);
		return result;
	}
	allocation->start = allocation->mapping + offset;
	result = map_all(opened, &part, &mapped);
	if (result == CUDA_SUCCESS && !nvs_allocation_note_opened(allocation))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS)
		unmap(allocation, mapped);
	return result;
}

/* With the lock held. */
static struct opened *find(const uint8_t key[NVS_WIRE_KEY_BYTES], const struct nvs_device *user)
{
	struct opened *opened = all;

	while (opened &&
	       (opened->allocation.device != user || memcmp(opened->key, key, sizeof(opened->key))))
		opened = opened->next;
	return opened;
}

static void drop(struct opened *opened)
{
	struct opened **link = &all;

	while (*link != opened)
		link = &(*link)->next;
	*link = opened->next;
	free(opened);
}

/* With the lock held, given up meanwhile: the record, which is mapped, or new and in our hands. */
static struct opened *enter(const struct nvs_shared_handle *handle, struct nvs_device *user)
{
	struct opened *opened;

	while ((opened = find(handle->key, user)) && opened->busy)
		nvs_mutex_wait(&lock);
	if (opened)
		return opened;
	opened = calloc(1, sizeof(*opened));
	if (!opened)
		return NULL;
	memcpy(opened->key, handle->key, sizeof(opened->key));
	opened->allocation =
		(struct nvs_allocation){ .kind = NVS_ALLOCATION_OPENED, .device = user };
	opened->busy = true;
	opened->next = all;
	all = opened;
	return opened;
}

static CUresult map_for(const struct nvs_shared_handle *handle, struct nvs_device *owner,
			struct nvs_device *user, CUcontext context, CUdeviceptr *pointer)
{
	CUresult result = CUDA_SUCCESS;
	struct opened *opened;

	nvs_mutex_lock(&lock);
	opened = enter(handle, user);
	if (!opened) {
		nvs_mutex_unlock(&lock);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (opened->busy) {
		opened->owner = owner;
		opened->allocation.context = context;
		nvs_mutex_unlock(&lock);
		result = make(opened, handle->bytes);
		nvs_mutex_lock(&lock);
		opened->busy = false;
		nvs_mutex_changed(&lock);
	}
	if (result == CUDA_SUCCESS) {
		opened->count++;
		*pointer = opened->allocation.start;
	} else {
		drop(opened);
	}
	nvs_mutex_unlock(&lock);
	return result;
}

/* The device on which the memory is, as this process numbers it; NULL: it does not see it. */
static struct nvs_device *owner_of(const struct nvs_shared_handle *handle)
{
	struct nvs_device *device;
	int devices = 0;

	NVS_CALL(cuDeviceGetCount, &devices);
	for (int ordinal = 0; ordinal < devices && ordinal < NVS_MAX_DEVICES; ordinal++) {
		CUuuid uuid;

		if (NVS_CALL(cuDeviceGetUuid_v2, &uuid, ordinal) != CUDA_SUCCESS &&
		    NVS_CALL(cuDeviceGetUuid, &uuid, ordinal) != CUDA_SUCCESS)
			continue;
		if (memcmp(uuid.bytes, handle->device_uuid, sizeof(handle->device_uuid)))
			continue;
		device = nvs_device_use(ordinal);
		if (device)
			return device;
	}
	return NULL;
}

CUresult nvs_open_map(const struct nvs_shared_handle *handle, CUdeviceptr *pointer)
{
	struct nvs_device *user = nvs_device_of(NULL), *owner;
	CUcontext context = NULL;
	int can = 1;

	if (!user || NVS_CALL(cuCtxGetCurrent, &context) != CUDA_SUCCESS || !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* So the driver answers the process that gave it. */
	if (nvs_export_is_own(handle->key))
		return CUDA_ERROR_INVALID_CONTEXT;
	owner = owner_of(handle);
	if (!owner)
		return give_up(CUDA_ERROR_INVALID_HANDLE, "this process does not see its GPU");
	if (owner != user &&
	    (NVS_CALL(cuDeviceCanAccessPeer, &can, user->ordinal, owner->ordinal) != CUDA_SUCCESS ||
	     !can))
		return give_up(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "its GPU can't be reached");
	return map_for(handle, owner, user, context, pointer);
}

/* With the lock held, given up meanwhile: who works on it is waited for. */
static struct opened *at(CUdeviceptr pointer)
{
	struct opened *opened = all;

	while (opened && (opened->busy || opened->allocation.start != pointer))
		if (opened->busy && opened->allocation.start == pointer) {
			nvs_mutex_wait(&lock);
			opened = all;
		} else {
			opened = opened->next;
		}
	return opened;
}

static CUresult finish_work(void)
{
	CUcontext context = NULL;
	CUresult result = NVS_CALL(cuCtxGetCurrent, &context);

	if (result == CUDA_SUCCESS)
		result = context ? nvs_idle_wait(context) : CUDA_ERROR_INVALID_CONTEXT;
	return result;
}

/* Of one that is busy, and that nobody has open any more. */
static CUresult end(struct opened *opened)
{
	CUresult result = finish_work();

	if (result == CUDA_SUCCESS) {
		nvs_allocation_forget(opened->allocation.mapping);
		unmap(&opened->allocation, opened->allocation.mapping_bytes);
	}
	return result;
}

bool nvs_open_close(CUdeviceptr pointer, CUresult *result)
{
	struct opened *opened;
	bool known;

	*result = CUDA_SUCCESS;
	nvs_mutex_lock(&lock);
	opened = at(pointer);
	known = opened;
	if (known && opened->count > 1) {
		opened->count--;
	} else if (known) {
		opened->busy = true;
		nvs_mutex_unlock(&lock);
		*result = end(opened);
		nvs_mutex_lock(&lock);
		opened->busy = false;
		if (*result == CUDA_SUCCESS)
			drop(opened);
		nvs_mutex_changed(&lock);
	}
	nvs_mutex_unlock(&lock);
	return known;
}

void nvs_opens_allow(const struct nvs_device *device)
{
	nvs_mutex_lock(&lock);
	for (struct opened *opened = all; opened; opened = opened->next) {
		if (opened->busy || opened->owner != device)
			continue;
		opened->busy = true;
		nvs_mutex_unlock(&lock);
		grant(opened);
		nvs_mutex_lock(&lock);
		opened->busy = false;
		nvs_mutex_changed(&lock);
	}
	nvs_mutex_unlock(&lock);
}

void nvs_opens_forked(void)
{
	nvs_mutex_forked(&lock);
	/* What the parent has mapped is the parent's; its records stay allocated. */
	all = NULL;
	nvs_parts_forked();
}
