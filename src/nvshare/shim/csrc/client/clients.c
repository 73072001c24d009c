/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the clients' records, one for every device that the process uses, and starts their threads.
 * A record is its thread's (client.c); what happens here on other threads only adds to `pending`.
 *
 * After fork the child closes what was inherited, which would keep the parent's connection open,
 * and nvs_client_start begins anew.
 */
#define _GNU_SOURCE
#include "client/client.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/claims.h"
#include "client/lock_state.h"
#include "client/record.h"
#include "gate/device.h"
#include "gate/gate.h"
#include "memory/room.h"
#include "process/clock.h"
#include "process/config.h"
#include "process/ends.h"
#include "process/files.h"
#include "process/log.h"
#include "process/notices.h"
#include "process/thread.h"
#include "ties/ties.h"

#define TOLD_WHY_US 10000000 /* who waits for longer is told why */

static struct nvs_client clients[NVS_MAX_DEVICES];

/*
 * False: there is no thread; a later call may have more luck. Without one nobody would ever open
 * the gate, so every submission that waits tries again.
 */
static bool start_thread(struct nvs_client *client)
{
	bool started;

	if (atomic_exchange(&client->running, true))
		return true;
	started = nvs_pending_mend(&client->pending) && nvs_thread_create(nvs_client_run, client);
	atomic_store(&client->running, started);
	atomic_store(&client->device->unheard, !started);
	return started;
}

static void do_without_thread(struct nvs_device *device)
{
	nvs_log("no thread can be created for device %d: it is used as if there were no scheduler",
		device->ordinal);
	nvs_ties_link(device, NVS_TIES_LINK_WITHOUT);
	nvs_room_expect_limit(device, false);
	nvs_room_link(device, NVS_ROOM_LINK_UNAWARE);
	if (nvs_config()->on_missing == NVS_ON_MISSING_RUN)
		nvs_gate_set(device, NVS_GATE_OPEN);
	else if (nvs_config()->on_missing == NVS_ON_MISSING_FAIL)
		nvs_gate_set(device, NVS_GATE_FAILING);
}

void nvs_clients_forked(void)
{
	for (struct nvs_client *client = clients; client < clients + NVS_MAX_DEVICES; client++) {
		if (!client->device)
			continue;
		nvs_connection_close_files(&client->connection);
		nvs_pending_close(&client->pending);
		client->device = NULL;
	}
}

static void hear_worker(struct nvs_worker *worker, enum nvs_worker_report report)
{
	nvs_pending_add(&worker->device->client->pending, NVS_PENDING_REPORT * report);
}

static void hear(struct nvs_device *device, enum nvs_news news)
{
	if (news == NVS_NEWS_LOST)
		nvs_room_lose(device);
	/* The mover may begin again what it was told meanwhile. */
	if (news == NVS_NEWS_DOOR)
		nvs_room_changed(device);
	nvs_pending_add(&device->client->pending, news);
	if (news == NVS_NEWS_WANTED)
		start_thread(device->client);
}

static void name_other(struct nvs_device *device, char *text, size_t size)
{
	uint32_t own = atomic_load(&device->client->connection.listener);
	struct nvs_peer other;

	*text = '\0';
	if (nvs_claims_find(device->uuid, own, &other))
		snprintf(text, size, "; another scheduler has this device%s: pid %u of user %u",
			 own ? ", too" : "", other.pid, other.uid);
}

static void notice_said(void)
{
	for (struct nvs_client *client = clients; client < clients + NVS_MAX_DEVICES; client++)
		if (atomic_load(&client->running))
			nvs_pending_add(&client->pending, NVS_PENDING_NOTICE);
}

static const struct nvs_listener listener = { .hear = hear, .name_other = name_other };

void nvs_client_start(struct nvs_device *device)
{
	struct nvs_client *client = &clients[device->ordinal];
	NVS_KEEP_ERRNO;

	memset(client, 0, sizeof(*client));
	client->connection = (struct nvs_connection)NVS_NO_CONNECTION;
	client->pending.hears = client->pending.says = NVS_NO_FILE;
	client->worker.device = client->memory.device = device;
	client->worker.tell = hear_worker;
	client->device = device;
	nvs_pending_mend(&client->pending);
	nvs_lock_state_init(&client->state, nvs_config()->on_missing, (uint32_t)getpid(),
			    nvs_config()->debug ? 0 : TOLD_WHY_US, nvs_now_us());
	device->client = client;
	device->listener = &listener;
	nvs_notices_listen(notice_said);
	if (!start_thread(client))
		do_without_thread(device);
}
