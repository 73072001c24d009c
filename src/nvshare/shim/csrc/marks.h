/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marks of all threads, as device.c and drain.c need them; gate.c owns them, pass.h says what
 * they are.
 */
#ifndef NVSHARE_MARKS_H
#define NVSHARE_MARKS_H

struct nvs_device;
struct nvs_mark;

/* Before the first device is used, also in a forked child. Not from two threads at a time. */
void nvs_marks_prepare(void);
/* The calling thread's mark; makes it when it has none. NULL: no memory. */
struct nvs_mark *nvs_mark_take(void);
/*
 * Returns when no call is in flight on the device that found its gate in a state from before this
 * call.
 */
void nvs_marks_wait(const struct nvs_device *device);
/* Returns when no thread asks about events that began to before this call. */
void nvs_marks_wait_looks(void);
/* In a forked child: the other threads are gone. */
void nvs_marks_forked(void);

#endif
