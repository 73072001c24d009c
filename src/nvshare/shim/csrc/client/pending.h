/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other threads have to say to a client's thread: bits, and two sockets that wake it. What is
 * said into the one is heard in the other; and should the program close the first, the second shows
 * the end, so the thread that sleeps on it hears that at once.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "process/files.h"

struct nvs_pending {
	_Atomic unsigned int bits;
	struct nvs_file hears, says;
};

/* With nvs_files_lock held. */
void nvs_pending_close(struct nvs_pending *pending);
/* Any thread that does not hold nvs_files_lock; leaves errno alone. */
void nvs_pending_add(struct nvs_pending *pending, unsigned int bit);
/* Whether the bit was set; it is not any more. */
bool nvs_pending_take(struct nvs_pending *pending, unsigned int bit);
bool nvs_pending_has(const struct nvs_pending *pending, unsigned int bit);

/* For the client's thread. */

/*
 * Opens anew what the program has closed. False: there is nothing that could wake the thread; it
 * may be tried again. Whatever was added before is in the bits.
 */
bool nvs_pending_mend(struct nvs_pending *pending);
/* What poll is to wait for; -1: it would not be woken. */
int nvs_pending_number(const struct nvs_pending *pending);
/* `revents` is what poll said of it. What has ended is mended by nvs_pending_mend. */
void nvs_pending_woken(struct nvs_pending *pending, short revents);
