/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other threads have to say to a client's thread: bits, and a file that wakes it.
 */
#ifndef NVSHARE_PENDING_H
#define NVSHARE_PENDING_H

#include <stdatomic.h>
#include <stdbool.h>

struct nvs_pending {
	_Atomic unsigned int bits;
	int wake; /* readable: look at the bits; -1: none */
};

/* With nvs_files_lock held. */
void nvs_pending_open(struct nvs_pending *pending);
void nvs_pending_close(struct nvs_pending *pending);
/* Any thread; leaves errno alone. */
void nvs_pending_add(struct nvs_pending *pending, unsigned int bit);
/* Whether the bit was set; it is not any more. */
bool nvs_pending_take(struct nvs_pending *pending, unsigned int bit);
bool nvs_pending_has(const struct nvs_pending *pending, unsigned int bit);
/* `revents` is what poll said of `wake`. */
void nvs_pending_woken(struct nvs_pending *pending, short revents);

#endif
