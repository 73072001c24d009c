/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the events that show how far a device's contexts have come. A context is pinned while its
 * event is used; no lock besides.
 */
#include "gate/completion.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"
#include "gate/context_list.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/lost.h"
#include "gate/marks.h"
#include "process/log.h"

/*
 * An error means that the context is gone or broken for good; nothing runs in it any more. One that
 * is broken answers the same again.
 */
static void synchronize(const struct nvs_context *entry, CUcontext context)
{
	CUcontext popped;
	CUresult result;

	if (NVS_CALL(cuCtxPushCurrent_v2, context) != CUDA_SUCCESS)
		return;
	result = NVS_CALL(cuCtxSynchronize);
	if (nvs_final_name(result) && NVS_CALL(cuCtxSynchronize) == result)
		nvs_lose(nvs_device_known(atomic_load(&entry->ordinal)), result);
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
}

/* The device's own work, and that of those which may use its memory. */
static bool may_use(const struct nvs_device *user, const struct nvs_device *device)
{
	return user == device || atomic_load(&user->reaches) >> device->ordinal & 1;
}

static bool make_event(struct nvs_context_end *end, CUcontext context)
{
	CUcontext popped;

	if (end->event)
		return true;
	if (NVS_CALL(cuCtxPushCurrent_v2, context) != CUDA_SUCCESS)
		return false;
	if (NVS_CALL(cuEventCreate, &end->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		end->event = NULL;
	NVS_CALL(cuCtxPopCurrent_v2, &popped);
	return end->event != NULL;
}

static void record(struct nvs_context *entry, struct nvs_context_end *end)
{
	CUcontext context;

	end->running = false;
	if (!nvs_context_take(entry, &context))
		return;
	end->running = NVS_REAL(cuCtxRecordEvent) && make_event(end, context) &&
		       NVS_CALL(cuCtxRecordEvent, context, end->event) == CUDA_SUCCESS;
	if (!end->running)
		synchronize(entry, context);
	nvs_context_give_back(entry);
}

void nvs_contexts_record(const struct nvs_device *device)
{
	struct nvs_context *entry = NULL;

	/*
	 * One whose context may be ending is passed over, here and in the query: the call that ends
	 * it has its mark set, and takes the event away.
	 */
	NVS_EACH_DEVICE(user, UINT64_MAX)
		while (may_use(user, device) && (entry = nvs_context_next(user, entry, false)))
			record(entry, &entry->ends[device->ordinal]);
}

static enum nvs_completion query(struct nvs_context_end *end)
{
	if (!end->running)
		return NVS_COMPLETION_DONE;
	if (!end->event)
		return NVS_COMPLETION_UNKNOWN;
	/* Any other error means that nothing runs in the context any more. */
	end->running = NVS_CALL(cuEventQuery, end->event) == CUDA_ERROR_NOT_READY;
	return end->running ? NVS_COMPLETION_RUNS : NVS_COMPLETION_DONE;
}

enum nvs_completion nvs_contexts_query(const struct nvs_device *device)
{
	enum nvs_completion all = NVS_COMPLETION_DONE, one;
	struct nvs_context *entry = NULL;

	NVS_EACH_DEVICE(user, UINT64_MAX)
		while (may_use(user, device) && (entry = nvs_context_next(user, entry, false))) {
			one = query(&entry->ends[device->ordinal]);
			if (one > all)
				all = one;
		}
	return all;
}

void nvs_contexts_synchronize(const struct nvs_device *device)
{
	static _Atomic bool told;
	uint64_t submissions = nvs_marks_submissions(device);
	struct nvs_context *entry = NULL;
	CUcontext context;
	bool found = false;

	NVS_EACH_DEVICE(user, UINT64_MAX)
		while (may_use(user, device) && (entry = nvs_context_next(user, entry, true)))
			if (nvs_context_take(entry, &context)) {
				synchronize(entry, context);
				nvs_context_give_back(entry);
				found = found || user == device;
			}
	if (nvs_contexts_missed(device->ordinal, submissions, found) &&
	    !atomic_exchange(&told, true))
		nvs_log("device %d: work was submitted in a context that the library has not seen; "
			"it may still run while others have the device",
			device->ordinal);
}

bool nvs_contexts_alive(const struct nvs_device *device)
{
	struct nvs_context *entry = NULL;
	CUcontext context;

	while ((entry = nvs_context_next(device, entry, false)))
		if (nvs_context_take(entry, &context)) {
			nvs_context_give_back(entry);
			nvs_context_unpin(entry);
			return true;
		}
	return false;
}
