/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of CUDA graphs that are going on in this process. While one is, nothing may be
 * synchronized (the driver would end the capture with an error), and what is captured is not
 * submitted.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/abi.h"

struct nvs_capture;
struct nvs_mark;

/* For the hooks. NULL streams of the _ptsz forms are given as CU_STREAM_PER_THREAD. */

/*
 * Before the driver's function. `capture` is NULL if none may begin now: nvs_capture_await, and
 * again. False: no memory.
 */
bool nvs_capture_begin(CUstream stream, struct nvs_capture **capture);
/* Waits while a synchronization is going on. */
void nvs_capture_await(void);
/* After the driver's function. */
void nvs_capture_begun(struct nvs_capture *capture, CUresult result);
/* Around the driver's function that ends a stream's capture, or the stream. */
void nvs_capture_ending(void);
void nvs_capture_ended(CUstream stream, bool destroyed);
/* The context's streams are gone. */
void nvs_capture_context_ended(CUcontext context);

/* For the gate. */

extern _Atomic int nvs_captures;
extern _Atomic bool nvs_capture_ever; /* a capture has begun in this process; never taken back */

static inline bool nvs_captures_going_on(void)
{
	return atomic_load_explicit(&nvs_captures, memory_order_acquire) > 0;
}

/* The stream is being captured: true, and it stays so until nvs_capture_passed(). */
bool nvs_capture_pass(CUstream stream);
void nvs_capture_passed(void);
/* The owner of the mark has ended, and its own default stream with it. */
void nvs_capture_thread_ended(const struct nvs_mark *mark);

/* For the drain. */

/* From here on no capture begins, except beside one that goes on already, which may need it. */
void nvs_capture_announce(void);
/* After that: waits until no capture is going on; then none begins until nvs_capture_allow(). */
void nvs_capture_forbid(void);
/* Both without waiting; false: a capture is going on. */
bool nvs_capture_try_forbid(void);
void nvs_capture_allow(void);
/* A thread waits to begin one. */
bool nvs_capture_wanted(void);
/* In a forked child. */
void nvs_capture_forked(void);
