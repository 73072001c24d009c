/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory as the program sees it: where it comes from (a backend), what of it belongs to which device (the account), and
 * what the program is told about it (the view). The hooks are in hooks_memory.c; here is what they and the rest share.
 *
 * Every function may be called from any thread. None holds a lock of ours while it calls the driver.
 */
#ifndef NVSHARE_MEMORY_H
#define NVSHARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../cuda/abi.h"
#include "../../protocol/wire.h"

struct nvs_device;

/* For the hooks of contexts. */

/* The context was destroyed or reset by a call that succeeded: what was allocated in it is gone. */
void nvs_memory_context_gone(CUcontext context);

/* For the launch of graphs. */

/* A graph with memory nodes may exist in this process: launches must be followed by nvs_memory_graphs_ran. */
extern _Atomic bool nvs_memory_graphs_allocate;
/* Measures anew what graphs have allocated on the device. */
void nvs_memory_graphs_ran(struct nvs_device *device);

/* For a forked child, before it uses a device: nothing of the parent's memory is the child's. Safe in an atfork handler. */
void nvs_memory_forked(void);

/* For the client thread: what REGISTER says. */
enum nvs_wire_backend nvs_memory_wire_backend(struct nvs_device *device);

/*
 * A backend: how an allocation of plain device memory is served on a device. The account is not its business: it is called between
 * nvs_memory_reserve and nvs_memory_commit. All run in the program's thread with a context of the device current.
 */
struct nvs_memory_backend {
	const char *name;
	enum nvs_wire_backend wire;
	CUresult (*alloc)(struct nvs_device *device, CUdeviceptr *pointer, size_t bytes);
	/* `charged`: the bytes that the allocation took. */
	CUresult (*alloc_pitch)(struct nvs_device *device, CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
				unsigned int element, size_t *charged);
	/* Called for pointers of this backend only. */
	CUresult (*free)(struct nvs_device *device, CUdeviceptr pointer);
	/* The most that the process may allocate on the device. */
	uint64_t (*allocatable)(const struct nvs_device *device);
	/* What cuMemGetInfo says is free; `driver_free` is what the driver says. */
	uint64_t (*free_bytes)(const struct nvs_device *device, uint64_t footprint, uint64_t driver_free);
	/* Changes what the driver says of a pointer of this backend, so that it looks like plain device memory. */
	CUresult (*attribute)(CUpointer_attribute attribute, void *data, CUdeviceptr pointer, CUresult real);
};

extern const struct nvs_memory_backend nvs_memory_managed;
extern const struct nvs_memory_backend nvs_memory_native;

#endif
