/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks and allocations without a scheduler: the library's own files are linked into this program,
 * with stand_in.c in place of client and room, and its callers in place of the mover. What a case
 * says stands before it.
 */
#ifndef NVSHARE_TEST_STORE_H
#define NVSHARE_TEST_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "memory/swap/allocations.h"
#include "memory/swap/chunks.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr pointer);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer);
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr pointer);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr pointer);

#define MIB (1ull << 20)
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* What the program has been given room for; read when nobody asks for more. */
struct room {
	uint64_t footprint, resident, fixed_bytes;
	uint64_t most, capacity; /* that may be had, and that is told */
	uint64_t lacking;	 /* how often the driver refused */
};
extern struct room room;
extern struct nvs_device *device;  /* the first one */
extern CUcontext context;	   /* its primary one */
extern _Atomic unsigned int ended; /* chunks */

/* Each case begins with it. */
void begin(void);
/* The room's part of a chunk's move: so much came in, or (negative) left. */
void count(int64_t here);
/* In place of the mover: nothing runs, and nothing will. A chunk's `granules` are its copy. */
void close_gate(void);
/* One chunk; false: there is none. */
bool send_out(void);
bool bring_in(void);
/* Brings in all that is out. */
void open_gate(void);

void one_thread(void);
void eight_threads(void);
void queries(void);
void free_moving_out(void);
void free_staying(void);
void free_moving_in(void);
void free_going_back(void);
void frees(void);
void racing_frees(void);
void closed_gate(void);
void clean(void);
void refused(void);
void context_end(void);
void other_context(void);
void fork_child(void);
void pinned(void);
void peers(void);
void view(void);
void many(void);
void free_beside_work(void);
void one_hand(void);
void made_beside_work(void);
void given_back(void);
void refused_on_return(void);
void rights_return(void);
void peers_meanwhile(void);

#endif
