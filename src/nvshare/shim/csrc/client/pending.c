/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bits and the eventfd of a client. No lock: the bits are atomic; `wake` belongs to the
 * client's thread, and others only write to it.
 */
#define _GNU_SOURCE
#include "client/pending.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "process/files.h"
#include "process/thread.h"

void nvs_pending_open(struct nvs_pending *pending)
{
	pending->wake = nvs_file_move(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void nvs_pending_close(struct nvs_pending *pending)
{
	if (pending->wake >= 0)
		close(pending->wake);
}

/* A bit that was set already has woken the thread already. */
void nvs_pending_add(struct nvs_pending *pending, unsigned int bit)
{
	/* This runs in the program's own calls: the write must not show in its errno. */
	int saved = errno;

	/* Cancelled between the two, a thread would have told that the client was woken. */
	nvs_cancel_off();
	if (!(atomic_fetch_or(&pending->bits, bit) & bit))
		(void)!write(pending->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
	nvs_cancel_on();
	errno = saved;
}

bool nvs_pending_take(struct nvs_pending *pending, unsigned int bit)
{
	return atomic_fetch_and(&pending->bits, ~bit) & bit;
}

bool nvs_pending_has(const struct nvs_pending *pending, unsigned int bit)
{
	return atomic_load(&pending->bits) & bit;
}

void nvs_pending_woken(struct nvs_pending *pending, short revents)
{
	uint64_t count;

	if (revents & POLLNVAL)
		/*
		 * The program closed it, as some do with every file that they don't know. ppoll
		 * passes over -1; without this the thread would never sleep again.
		 */
		pending->wake = -1;
	else if (revents)
		(void)!read(pending->wake, &count, sizeof(count));
}
