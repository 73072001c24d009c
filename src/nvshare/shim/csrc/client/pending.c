/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bits and the sockets of a client. The bits are atomic; nvs_files_lock protects the sockets,
 * which the client's thread alone changes.
 */
#define _GNU_SOURCE
#include "client/pending.h"

#include <errno.h>
#include <sys/socket.h>

#include "process/ends.h"
#include "process/thread.h"

/* False: there are no descriptors for it. */
static bool open_pair(struct nvs_pending *pending)
{
	int pair[2] = { -1, -1 };
	bool opened;

	nvs_files_lock();
	opened = !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
	pending->hears = nvs_file_of(pair[0]);
	pending->says = nvs_file_of(pair[1]);
	nvs_files_unlock();
	return opened;
}

void nvs_pending_close(struct nvs_pending *pending)
{
	nvs_file_close(&pending->hears);
	nvs_file_close(&pending->says);
}

static void end(struct nvs_pending *pending)
{
	nvs_files_lock();
	nvs_pending_close(pending);
	nvs_files_unlock();
}

/*
 * No signal, should nobody hear it: it would end the program. What does not go finds one that has
 * not been read, or a socket that the program closed: then the thread wakes by that. Or the kernel
 * has no memory for it; the end needs none.
 */
static void wake(const struct nvs_pending *pending)
{
	int number;

	nvs_files_lock();
	number = nvs_file_number(&pending->says);
	if (number >= 0 && send(number, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
		shutdown(number, SHUT_WR);
	nvs_files_unlock();
}

/* A bit that was set already has woken the thread already. */
void nvs_pending_add(struct nvs_pending *pending, unsigned int bit)
{
	/* This runs in the program's own calls: the socket must not show in its errno. */
	NVS_KEEP_ERRNO;

	/* Cancelled between the two, a thread would have told that the client was woken. */
	nvs_cancel_off();
	if (!(atomic_fetch_or(&pending->bits, bit) & bit))
		wake(pending);
	nvs_cancel_on();
}

bool nvs_pending_take(struct nvs_pending *pending, unsigned int bit)
{
	return atomic_fetch_and(&pending->bits, ~bit) & bit;
}

bool nvs_pending_has(const struct nvs_pending *pending, unsigned int bit)
{
	return atomic_load(&pending->bits) & bit;
}

bool nvs_pending_mend(struct nvs_pending *pending)
{
	if (nvs_pending_number(pending) >= 0)
		return true;
	end(pending);
	return open_pair(pending);
}

int nvs_pending_number(const struct nvs_pending *pending)
{
	return nvs_file_number(&pending->says) < 0 ? -1 : nvs_file_number(&pending->hears);
}

void nvs_pending_woken(struct nvs_pending *pending, short revents)
{
	char said[64];
	int number = revents ? nvs_file_number(&pending->hears) : -1;
	ssize_t got = number >= 0 ? 1 : -1;

	while (got > 0)
		got = recv(number, said, sizeof(said), MSG_DONTWAIT);
	if (!got)
		end(pending);
}
