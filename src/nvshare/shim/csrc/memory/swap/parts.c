/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the requests, each on the stack of a thread that waits, and the links. `lock` protects them;
 * descriptors are noted and closed with nvs_files_lock held. A request's `state` is written with
 * the lock held, and is the futex word of its thread.
 */
#include "memory/swap/parts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "gate/device.h"
#include "memory/swap/shared.h"
#include "process/clock.h"
#include "process/files.h"
#include "process/futex.h"
#include "process/log.h"
#include "process/mutex.h"
#include "process/thread.h"

#define LONGEST_WAIT_NS 10000000000u /* the scheduler gives the other process half as long */

enum request_state {
	WANTED = 0, /* to be said as soon as the link is up */
	ASKED = 1,
	ANSWERED = 2, /* the part is there */
	REFUSED = 3,  /* because of `text` */
	UNKNOWN = 4   /* to the scheduler that there is */
};

struct request {
	_Atomic uint32_t state; /* enum request_state; futex word */
	struct nvs_device *device;
	uint32_t number;
	const uint8_t *key;
	struct nvs_part *part;
	char text[NVS_WIRE_WHOLE_TEXT_BYTES];
	struct request *next;
};

static struct nvs_mutex lock = NVS_MUTEX(NVS_ORDER_PARTS);
static struct request *requests;
static uint32_t last; /* number */
static int links[NVS_MAX_DEVICES];

/* With the lock held. */
static void finish(struct request *request, enum request_state state)
{
	atomic_store(&request->state, state);
	nvs_futex_wake(&request->state, 1);
}

static bool is_over(const struct request *request)
{
	return atomic_load(&request->state) > ASKED;
}

/* Until it is over, or for as long as is allowed. */
static void await(struct request *request)
{
	uint64_t end = nvs_now_ns() + LONGEST_WAIT_NS, now;
	uint32_t state;

	while ((state = atomic_load(&request->state)) <= ASKED && (now = nvs_now_ns()) < end) {
		nvs_futex_sleep(&request->state, state, end - now);
	}
}

/* With the lock held. */
static void enlist(struct request *request)
{
	request->number = last = last == UINT32_MAX ? 1 : last + 1;
	request->next = requests;
	requests = request;
	if (links[request->device->ordinal] == NVS_PARTS_LINK_WITHOUT)
		finish(request, UNKNOWN);
}

static void delist(const struct request *request)
{
	struct request **link = &requests;

	while (*link != request)
		link = &(*link)->next;
	*link = request->next;
}

static CUresult say_why(const struct request *request)
{
	static const char *const why[] = {
		[WANTED] = "the scheduler has not been reached",
		[ASKED] = "the scheduler has not answered",
		[UNKNOWN] = "the scheduler does not know how to ask for it",
	};
	uint32_t state = atomic_load(&request->state);

	if (state == ANSWERED)
		return CUDA_SUCCESS;
	nvs_log("memory of another process can't be opened: %s",
		state == REFUSED ? request->text : why[state]);
	return state == REFUSED ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_SYSTEM_NOT_READY;
}

CUresult nvs_part_ask(struct nvs_device *device, const uint8_t key[NVS_WIRE_KEY_BYTES],
		      uint32_t index, struct nvs_part *part)
{
	struct request request = { .device = device, .key = key, .part = part };

	*part = (struct nvs_part){ .shared.index = index, .descriptor = NVS_NO_FILE };
	nvs_cancel_off();
	nvs_mutex_lock(&lock);
	enlist(&request);
	nvs_mutex_unlock(&lock);
	nvs_device_tell(device, NVS_NEWS_SHARED);
	await(&request);
	nvs_mutex_lock(&lock);
	delist(&request);
	nvs_mutex_unlock(&lock);
	nvs_cancel_on();
	return say_why(&request);
}

void nvs_parts_link(struct nvs_device *device, enum nvs_parts_link link)
{
	NVS_HOLD(&lock);
	links[device->ordinal] = link;
	for (struct request *request = requests; request; request = request->next) {
		if (request->device != device || is_over(request))
			continue;
		if (link == NVS_PARTS_LINK_WITHOUT)
			finish(request, UNKNOWN);
		else /* What the scheduler before was asked, the next one does not know. */
			atomic_store(&request->state, WANTED);
	}
}

bool nvs_parts_say(struct nvs_device *device, struct nvs_frame *frame)
{
	struct request *request;

	NVS_HOLD(&lock);
	for (request = requests; request; request = request->next)
		if (request->device == device && atomic_load(&request->state) == WANTED)
			break;
	if (request) {
		frame->type = NVS_OPEN_SHARED;
		frame->request = request->number;
		frame->shared.index = request->part->shared.index;
		memcpy(frame->shared.key, request->key, sizeof(frame->shared.key));
		atomic_store(&request->state, ASKED);
	}
	return request;
}

void nvs_parts_heard(struct nvs_device *device, const struct nvs_frame *frame, const char *text,
		     struct nvs_file *descriptor)
{
	struct request *request;

	NVS_HOLD(&lock);
	for (request = requests; request; request = request->next)
		if (request->device == device && request->number == frame->request &&
		    atomic_load(&request->state) == ASKED)
			break;
	if (request && frame->type == NVS_SHARED) {
		nvs_files_lock();
		request->part->shared = frame->shared;
		request->part->descriptor = *descriptor;
		*descriptor = NVS_NO_FILE;
		nvs_files_unlock();
		finish(request, ANSWERED);
	} else if (request) {
		snprintf(request->text, sizeof(request->text), "%s", text);
		finish(request, REFUSED);
	}
}

void nvs_parts_forked(void)
{
	/* Those threads are not the child's, but their stacks are. */
	for (const struct request *request = requests; request; request = request->next)
		nvs_file_close(&request->part->descriptor);
	nvs_mutex_forked(&lock);
	requests = NULL;
	memset(links, 0, sizeof(links));
}
