/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the parts together when a device is used for the first time, and takes them apart in a
 * forked child. The only file that knows all of them; none knows this one. Nothing is started
 * before: a program that is preloaded and never uses a GPU has no thread, no file and no handler of
 * ours.
 */
#include <stdbool.h>

#include "client/client.h"
#include "gate/capture.h"
#include "gate/contexts.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/gang_page.h"
#include "gate/marks.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "memory/swap/arena.h"
#include "memory/swap/chunks.h"
#include "memory/swap/exports.h"
#include "memory/swap/mover.h"
#include "memory/swap/opens.h"
#include "memory/away/store.h"
#include "process/files.h"
#include "process/notices.h"
#include "process/thread.h"
#include "ties/tied.h"
#include "ties/ties.h"

/* The child has one thread, no connection and no lock; what it asks for next is all its own. */
static void forked(void)
{
	nvs_devices_forked();
	nvs_door_forked();
	nvs_marks_forked();
	nvs_capture_forked();
	nvs_contexts_forked();
	nvs_gangs_forked();
	nvs_memory_forked();
	nvs_rooms_forked();
	nvs_arenas_forked();
	nvs_stores_forked();
	nvs_movers_forked();
	nvs_ties_forked();
	nvs_tied_forked();
	nvs_exports_forked();
	nvs_opens_forked();
	nvs_clients_forked();
	nvs_notices_forked();
	nvs_files_unlock();
}

static void start(struct nvs_device *device)
{
	static bool fork_handled;

	if (!fork_handled)
		fork_handled = nvs_at_fork(nvs_files_lock, nvs_files_unlock, forked);
	nvs_marks_prepare(nvs_capture_thread_ended);
	nvs_door_prepare();
	nvs_chunks_on_end(nvs_arena_give);
	nvs_ties_begin(device);
	nvs_client_start(device);
}

NVS_DEVICE_STARTER(start);
