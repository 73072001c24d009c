/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the parts together when a device is used for the first time, and takes them apart in a
 * forked child. The only file that knows all of them; none knows this one. Nothing is started
 * before: a program that is preloaded and never uses a GPU has no thread and no file of ours.
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

static bool started;

/*
 * The child has one thread, no connection and no lock; what it asks for next is all its own.
 * Nothing is freed: threads that the child has not may have been in the middle of changing it, and
 * the program's malloc may have handlers of its own, which follow.
 */
static void begin_anew(void)
{
	nvs_devices_forked();
	nvs_door_forked();
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
	started = false;
}

static void forked(void)
{
	nvs_marks_forked();
	if (started)
		begin_anew();
	nvs_files_unlock();
}

/*
 * Before the program's own handlers of fork, which may call the driver: whose came last runs first
 * before the fork, and last after it. So none of them runs while fork keeps our threads from their
 * files, or in a child that has not begun anew.
 */
__attribute__((constructor)) static void handle_forks(void)
{
	nvs_at_fork(nvs_files_lock, nvs_files_unlock, forked);
}

static void start(struct nvs_device *device)
{
	started = true;
	nvs_marks_prepare(nvs_capture_thread_ended);
	nvs_door_prepare();
	nvs_chunks_on_end(nvs_arena_give);
	nvs_ties_begin(device);
	nvs_client_start(device);
}

NVS_DEVICE_STARTER(start);
