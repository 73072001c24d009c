/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames about a process that sleeps: its door, and the file or pack in which its host
 * memory may be meanwhile. For the client's thread. Those that hear a frame are false for one that
 * no scheduler sends now.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nvs_client;
struct nvs_frame;

/* The link may have changed. */
void nvs_sleep_follow(struct nvs_client *client);
/* REGISTER is said. */
void nvs_sleep_registers(struct nvs_client *client);
/* It waits for the lock, and what it asked for before its process slept the scheduler has taken
 * back.
 */
bool nvs_sleep_asks_again(const struct nvs_client *client);
/* Who registers behind a closed door says so, and what has its host memory. */
void nvs_sleep_registered(struct nvs_client *client);
void nvs_sleep_hear(struct nvs_client *client, const struct nvs_frame *frame);
bool nvs_sleep_hear_awake(struct nvs_client *client, bool lost);
bool nvs_sleep_hear_store(struct nvs_client *client);
/* SUM, PACK or DEDUP. */
bool nvs_sleep_hear_step(struct nvs_client *client, uint8_t type);
/* ARENA, while memory does not have it all. */
bool nvs_sleep_hear_memory(struct nvs_client *client, const struct nvs_frame *frame);
/*
 * What there is to say, after the memory: answers that had to wait; and of a call that waits at the
 * closed door, WAKE, once for each closing and connection. A scheduler that can't have the process
 * woken, or none, is told to the user.
 */
void nvs_sleep_post(struct nvs_client *client);
