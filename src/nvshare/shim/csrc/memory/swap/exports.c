/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the allocations that were given out, and what the scheduler asks for of them. `lock`
 * protects both; it is held neither while the driver is called nor with a chunk entered, and is
 * signalled for the thread that makes the descriptors: the driver's calls for it may wait, and the
 * client never does. Descriptors are noted and closed with nvs_files_lock held.
 */
#define _GNU_SOURCE
#include "memory/swap/exports.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/door.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunks.h"
#include "memory/swap/shared.h"
#include "process/ends.h"
#include "process/files.h"
#include "process/mutex.h"
#include "process/thread.h"

#define MOST_EXPORTS 1024 /* on a device; the scheduler takes no more */
#define MOST_ANSWERS 256  /* that are under way; the scheduler asks a client for 16 at a time */

struct export
{
	struct nvs_device *device;
	uint8_t key[NVS_WIRE_KEY_BYTES];
	CUdeviceptr start;
	uint64_t bytes;
	unsigned long long id; /* of the allocation */
	bool said;	       /* the scheduler knows of it */
	bool ended;	       /* the allocation is gone */
	struct export *next;
};

enum answer_state {
	FREE = 0,
	ASKED = 1,
	MAKING = 2,
	VOID = 3, /* it is being made, and nobody wants it any more */
	READY = 4
};

struct answer {
	enum answer_state state;
	struct nvs_device *device;
	uint32_t request;
	uint8_t key[NVS_WIRE_KEY_BYTES];
	struct nvs_wire_shared part;
	struct nvs_file descriptor; /* none: there is nothing to give */
};

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_EXPORTS);
static struct export *exports;
static unsigned int counts[NVS_MAX_DEVICES];
static struct answer answers[MOST_ANSWERS];
static bool running;	  /* the thread was created */
static _Atomic bool used; /* something was given out once */

static void write_handle(const struct export *export, CUipcMemHandle_v1 *to)
{
	struct nvs_shared_handle handle = { .bytes = export->bytes };

	memcpy(handle.magic, NVS_SHARED_MAGIC, sizeof(handle.magic));
	memcpy(handle.key, export->key, sizeof(handle.key));
	memcpy(handle.device_uuid, export->device->uuid, sizeof(handle.device_uuid));
	memcpy(to, &handle, sizeof(*to));
}

/*
 * A key that nobody can guess. False: the kernel gives none. The C library that we are compiled for
 * has no getrandom.
 */
static bool draw_key(uint8_t key[NVS_WIRE_KEY_BYTES])
{
	NVS_KEEP_ERRNO;

	return syscall(SYS_getrandom, key, NVS_WIRE_KEY_BYTES, 0) == NVS_WIRE_KEY_BYTES;
}

/* With the lock held. */
static struct export *by_id(unsigned long long id)
{
	struct export *export = exports;

	while (export && (export->id != id || export->ended))
		export = export->next;
	return export;
}

static struct export *by_key(const uint8_t key[NVS_WIRE_KEY_BYTES])
{
	struct export *export = exports;

	while (export && (export->ended || memcmp(export->key, key, NVS_WIRE_KEY_BYTES)))
		export = export->next;
	return export;
}

bool nvs_export_find(const struct nvs_allocation *allocation, CUipcMemHandle_v1 *handle)
{
	const struct export *export;

	NVS_HOLD(&lock);
	export = by_id(allocation->id);
	if (export)
		write_handle(export, handle);
	return export;
}

bool nvs_export_is_own(const uint8_t key[NVS_WIRE_KEY_BYTES])
{
	NVS_HOLD(&lock);
	return by_key(key);
}

/* With the lock held; takes the new one, or leaves it to the caller. */
static CUresult add(struct export *made, CUipcMemHandle_v1 *handle, bool *added)
{
	const struct export *export = by_id(made->id);
	unsigned int *count = &counts[made->device->ordinal];

	if (!export && *count >= MOST_EXPORTS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!export) {
		made->next = exports;
		export = exports = made;
		++*count;
		*added = true;
		atomic_store(&used, true);
	}
	write_handle(export, handle);
	return CUDA_SUCCESS;
}

CUresult nvs_export_add(const struct nvs_allocation *allocation, CUipcMemHandle_v1 *handle)
{
	struct export *made = calloc(1, sizeof(*made));
	CUresult result;
	bool added = false;

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->device = allocation->device;
	made->start = allocation->start;
	made->bytes = allocation->bytes;
	made->id = allocation->id;
	if (!draw_key(made->key)) {
		free(made);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	nvs_mutex_lock(&lock);
	result = add(made, handle, &added);
	nvs_mutex_unlock(&lock);
	if (added)
		nvs_device_tell(allocation->device, NVS_NEWS_SHARED);
	else
		free(made);
	return result;
}

static bool lives(const struct export *export)
{
	struct nvs_allocation allocation;

	return nvs_allocation_find(export->start, &allocation) && allocation.id == export->id;
}

/* With the lock held. */
static uint64_t mark_ended(void)
{
	uint64_t devices = 0;

	for (struct export *export = exports; export; export = export->next)
		if (!export->ended && !lives(export)) {
			export->ended = true;
			devices |= 1ULL << export->device->ordinal;
		}
	return devices;
}

void nvs_exports_check(void)
{
	uint64_t devices;

	if (!atomic_load(&used))
		return;
	nvs_mutex_lock(&lock);
	devices = mark_ended();
	nvs_mutex_unlock(&lock);
	NVS_EACH_DEVICE(device, devices)
		nvs_device_tell(device, NVS_NEWS_SHARED);
}

/* The thread that makes descriptors */

/* -1: the allocation is gone, or the driver refuses. */
static int make_descriptor(const struct export *export, uint32_t index,
			   struct nvs_wire_shared *shared)
{
	struct nvs_allocation_part part;
	int descriptor = -1;
	CUresult result;

	if (!nvs_allocation_enter(export->start, export->id, index, &part))
		return -1;
	result = NVS_CALL(cuMemExportToShareableHandle, &descriptor, part.chunk->handle,
			  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	*shared = (struct nvs_wire_shared){ .index = index,
					    .count = part.count,
					    .part_bytes = part.chunk->bytes,
					    .offset_bytes = part.offset };
	nvs_chunk_leave(part.chunk);
	return result == CUDA_SUCCESS ? descriptor : -1;
}

/* With the lock held, which is given up meanwhile. */
static void make(struct answer *answer)
{
	const struct export *found = by_key(answer->key);
	struct export export = found ? *found : (struct export){ 0 };
	struct nvs_wire_shared part = { 0 };
	struct nvs_device *device = answer->device;
	int descriptor = -1;

	answer->state = MAKING;
	nvs_mutex_unlock(&lock);
	if (found && nvs_door_wait()) {
		descriptor = make_descriptor(&export, answer->part.index, &part);
		nvs_door_leave();
	}
	nvs_mutex_lock(&lock);
	nvs_files_lock();
	answer->descriptor = nvs_file_of(descriptor);
	nvs_files_unlock();
	if (answer->state == VOID) {
		nvs_file_end(&answer->descriptor);
		answer->state = FREE;
		return;
	}
	answer->part = part;
	answer->state = READY;
	nvs_mutex_unlock(&lock);
	nvs_device_tell(device, NVS_NEWS_SHARED);
	nvs_mutex_lock(&lock);
}

static void *run(void *unused)
{
	(void)unused;
	nvs_mutex_lock(&lock);
	for (;;) {
		struct answer *answer = answers;

		while (answer < answers + MOST_ANSWERS && answer->state != ASKED)
			answer++;
		if (answer < answers + MOST_ANSWERS)
			make(answer);
		else
			nvs_mutex_wait(&lock);
	}
	return NULL;
}

/* For the client */

void nvs_exports_link(struct nvs_device *device, bool up)
{
	NVS_HOLD(&lock);
	for (struct export *export = exports; export; export = export->next)
		if (export->device == device)
			export->said = false;
	for (struct answer *answer = answers; !up && answer < answers + MOST_ANSWERS; answer++) {
		if (answer->device != device || answer->state == FREE)
			continue;
		if (answer->state == READY)
			nvs_file_end(&answer->descriptor);
		answer->state = answer->state == MAKING || answer->state == VOID ? VOID : FREE;
	}
}

bool nvs_exports_heard(struct nvs_device *device, const struct nvs_frame *frame)
{
	struct answer *answer = answers;

	NVS_HOLD(&lock);
	if (!running)
		running = nvs_thread_create(run, NULL);
	while (answer < answers + MOST_ANSWERS && answer->state != FREE)
		answer++;
	if (answer < answers + MOST_ANSWERS) {
		*answer = (struct answer){ .state = running ? ASKED : READY,
					   .device = device,
					   .request = frame->request,
					   .part.index = frame->shared.index,
					   .descriptor = NVS_NO_FILE };
		memcpy(answer->key, frame->shared.key, sizeof(answer->key));
		nvs_mutex_changed(&lock);
	}
	return answer < answers + MOST_ANSWERS;
}

/* With the lock held. */
static bool say_answer(struct nvs_device *device, struct nvs_frame *frame,
		       struct nvs_file *descriptor)
{
	for (struct answer *answer = answers; answer < answers + MOST_ANSWERS; answer++) {
		if (answer->device != device || answer->state != READY)
			continue;
		frame->type = answer->descriptor.number < 0 ? NVS_NOT_SHARED : NVS_SHARED;
		frame->request = answer->request;
		if (answer->descriptor.number < 0)
			snprintf(frame->text, sizeof(frame->text), "it was freed");
		else
			frame->shared = answer->part;
		*descriptor = answer->descriptor;
		answer->descriptor = NVS_NO_FILE;
		answer->state = FREE;
		return true;
	}
	return false;
}

/* With the lock held. */
static bool say_export(struct nvs_device *device, struct nvs_frame *frame)
{
	struct export **link = &exports, *export;

	while ((export = *link)) {
		bool tells = export->device == device && export->said == export->ended;

		if (!tells && !(export->device == device && export->ended)) {
			link = &export->next;
			continue;
		}
		if (tells) {
			frame->type = export->ended ? NVS_UNSHARE : NVS_SHARE;
			memcpy(frame->shared.key, export->key, sizeof(export->key));
			export->said = true;
		}
		if (export->ended) {
			*link = export->next;
			counts[device->ordinal]--;
			free(export);
		}
		if (tells)
			return true;
	}
	return false;
}

bool nvs_exports_say(struct nvs_device *device, struct nvs_frame *frame,
		     struct nvs_file *descriptor)
{
	*descriptor = NVS_NO_FILE;
	NVS_HOLD(&lock);
	return say_export(device, frame) || say_answer(device, frame, descriptor);
}

void nvs_exports_forked(void)
{
	for (struct answer *answer = answers; answer < answers + MOST_ANSWERS; answer++)
		if (answer->state == READY)
			nvs_file_close(&answer->descriptor);
	nvs_mutex_forked(&lock);
	/* What the parent gave out is the parent's; its records stay allocated. */
	exports = NULL;
	memset(counts, 0, sizeof(counts));
	memset(answers, 0, sizeof(answers));
	running = false;
}
