/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client tells the scheduler of ties, terms, shared memory and how its work goes on, its
 * device of others, and the report of the lock. For the client's thread.
 */
#pragma once

#include <stdint.h>

struct nvs_client;

/* The lock's state has handled an event: what goes with the link and the lock follows. */
void nvs_posts_follow(struct nvs_client *client);
/*
 * What became of the lock, for the report (process/report.h); `before` is what it was (enum
 * nvs_lock).
 */
void nvs_report_lock(const struct nvs_client *client, int before);
/* Whether others wait for the device. */
void nvs_tell_others(struct nvs_client *client);
/* What the environment asks for, also where that is nothing. */
void nvs_post_terms(struct nvs_client *client);
/* Those that the scheduler does not know. */
void nvs_post_ties(struct nvs_client *client);
/* That the device is lost, and what else users are to be told, as far as it is not known. */
void nvs_post_notices(struct nvs_client *client);
/* All that there is to say of memory that one process gives and another one maps. */
void nvs_post_shared(struct nvs_client *client);
/*
 * How far the work is, if somebody watches (WATCH): in intervals while the gate is open, as it
 * opens, and when all has completed before the lock is given back. The deadline is that of the next
 * interval; NVS_LOCK_NEVER: none.
 */
void nvs_post_progress(struct nvs_client *client);
uint64_t nvs_progress_deadline(const struct nvs_client *client);
