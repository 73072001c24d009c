/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address space of the simulated devices.
 *
 * Device memory lives in one sparse memory file of this process. It has two windows of addresses:
 * programs are given addresses in the first, which nobody can read or write (a program that
 * dereferences a device pointer crashes, as on hardware), and the simulator reaches the same bytes
 * in the second, a constant distance away. Memory made by cuMemAlloc and the like lies in the file
 * where it lies in the window; memory of the VMM calls lies behind that, or in a file of its own if
 * it may be exported to other processes, and is mapped where the program asks.
 *
 * Managed and pinned host memory is ordinary memory of the process, outside the windows.
 */
#pragma once

#include "sim.h"

#define SIM_PAGE 4096ull
#define SIM_ALIGNMENT 512ull
#define SIM_GRANULARITY (2ull << 20)

enum sim_range_kind {
	SIM_RANGE_DEVICE, /* cuMemAlloc, pools, arrays, graphs */
	SIM_RANGE_MAPPED, /* a VMM handle mapped into a reservation */
	SIM_RANGE_MANAGED,
	SIM_RANGE_HOST,	      /* cuMemHostAlloc */
	SIM_RANGE_REGISTERED, /* cuMemHostRegister */
	/* cuMemAddressReserve; in a table of their own, because mapped ranges lie inside them */
	SIM_RANGE_RESERVED
};

struct sim_physical {
	unsigned int references; /* the handle's, and one for each mapping */
	int device;		 /* -1: host memory */
	int file;		 /* of its own, if it may be exported; -1: the memory file */
	uint64_t offset;	 /* in the file */
	uint64_t bytes;
	bool charged; /* to this process; what was imported is its maker's */
	CUmemAllocationProp_v1 properties;
	unsigned int handles; /* how often it was handed out and not released */
};

struct sim_block;

struct sim_range {
	uint64_t start;
	uint64_t bytes; /* that may be accessed */
	uint64_t span;	/* of address space */
	uint64_t requested_bytes;
	bool going;	  /* being freed, once nobody has it pinned */
	bool lost;	  /* mapped memory: unmapped, or its rights gone, while it was pinned */
	bool free_queued; /* a stream will free it */
	bool of_graph;	  /* an allocation node's, or reserved for one */
	enum sim_range_kind kind;
	int device;
	struct CUctx_st *context;
	uint64_t id;
	uint64_t charged_bytes;
	unsigned int pins;
	unsigned int flags;	       /* of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged */
	struct sim_physical *physical; /* mapped ranges */
	uint64_t physical_offset;
	/* mapped ranges and pools: CUmemAccess_flags of each device */
	unsigned char access[SIM_MAX_DEVICES];
	struct CUmemPoolHandle_st *pool;
	uint64_t *used_bytes; /* that it is counted in: the pool's, or a device's graphs'; NULL:
				 none */
	int sync_memops;
	struct sim_block *blocks;		      /* managed ranges: paging.h */
	void (*ends_locked)(struct sim_range *range); /* managed ranges: before it is dropped */
	struct { /* managed ranges: what cuMemAdvise and prefetches said last */
		int read_mostly;
		CUmemLocation preferred;
		CUmemLocation prefetched;
		uint64_t accessed_by;
		bool accessed_by_host;
	} advice;
};

/* file.c */

extern struct sim_window {
	uint64_t start; /* of the addresses that programs see */
	uint64_t bytes;
	int file; /* the memory file */
} sim_window;

/* Makes the windows, once. */
CUresult sim_window_open_locked(void);
bool sim_window_contains(uint64_t address);
/* Where the simulator reaches an address of the program. */
void *sim_reach(uint64_t address);

/*
 * What every look at how far the device has come begins with. It reads memory that the device
 * writes, so the process crashes while it is checkpointed, as with a real driver.
 */
void sim_look_at_progress(void);

/* Space in the part of the memory file that is behind the window's. */
uint64_t sim_file_take_locked(uint64_t bytes);
void sim_file_give_locked(uint64_t offset, uint64_t bytes);
/* Maps a part of a file, -1 meaning the memory file, at addresses of the window. */
bool sim_file_map(uint64_t address, uint64_t bytes, int from, uint64_t offset);
void sim_file_unmap(uint64_t address, uint64_t bytes);
/* The same in the window of the program, which then reads and writes host memory there itself. */
bool sim_file_show(uint64_t address, uint64_t bytes, int from, uint64_t offset, bool readable,
		   bool writable);
void sim_file_hide(uint64_t address, uint64_t bytes);
/* Makes a part of a file read as zeros. */
void sim_file_punch(int from, uint64_t offset, uint64_t bytes);
/*
 * Makes device memory that lies in the file where it lies in the window read as zeros, and gives
 * the host memory behind it back.
 */
void sim_discard_in_place(uint64_t address, uint64_t bytes);

/* range.c */

struct sim_range *sim_range_add_locked(enum sim_range_kind kind, uint64_t start, uint64_t bytes,
				       uint64_t span);
/*
 * Waits until nobody has the range pinned, then frees the range and its memory, which is the
 * device's again.
 */
void sim_range_drop_locked(struct sim_range *range);
/* Drops all that belongs to a context; mapped ranges belong to no context. */
void sim_range_drop_context_locked(const struct CUctx_st *context);
/* The range that an address is in; sim_range_live_locked finds none that is being freed. */
struct sim_range *sim_range_find_locked(uint64_t address);
struct sim_range *sim_range_live_locked(uint64_t address);
bool sim_range_has_locked(enum sim_range_kind kind);
/* The first range that ends behind the address. */
struct sim_range *sim_range_next_locked(uint64_t address);

struct sim_range *sim_reservation_add_locked(uint64_t start, uint64_t bytes);
struct sim_range *sim_reservation_find_locked(uint64_t address);
struct sim_range *sim_reservation_next_locked(uint64_t address);
void sim_reservation_remove_locked(struct sim_range *reservation);

/* window.c */

/*
 * Address space for device memory in the window; 0: none left. `wanted` is tried first if it is not
 * 0.
 */
uint64_t sim_window_take_locked(uint64_t bytes, uint64_t alignment, uint64_t wanted);
/* Allocates device memory: charges it to the device, takes address space and makes a range. */
CUresult sim_device_memory_locked(struct CUctx_st *context, int device, uint64_t bytes,
				  struct sim_range **range);
/*
 * The first byte from an address on that was ever written, at most `bytes` away; only device memory
 * knows.
 */
uint64_t sim_next_data(uint64_t address, uint64_t bytes);
/* Makes device memory read as zeros, and gives the host memory behind it back. */
void sim_discard(uint64_t address, uint64_t bytes);

/* physical.c */

struct sim_physical *sim_physical_add_locked(const CUmemAllocationProp_v1 *properties, int device,
					     uint64_t bytes);
/* Returns how many bytes became free by it: 0 while somebody else has it. */
uint64_t sim_physical_unref_locked(struct sim_physical *physical);
/* Whether there is any in memory of the host: the driver checkpoints that, and restores it never.
 */
bool sim_physical_has_host_locked(void);

struct sim_op;

/* managed.c */
void sim_prefetch_run(const struct sim_op *op);

/* sharing.c */

/* A file for memory that may be exported; -1: the system has none. */
int sim_sharing_new_file(const CUmemAllocationProp_v1 *properties, uint64_t bytes);

/* pin.c */

enum sim_access {
	SIM_READ = 1,
	SIM_WRITE = 3
};

/*
 * Pins the memory behind addresses that an operation on a device touches, until sim_unpin. Memory
 * that the program unmaps meanwhile, or takes the rights of, stays until then, and the context ends
 * with CUDA_ERROR_ILLEGAL_ADDRESS, as it does on a device whose kernel finds it gone. Memory
 * without access rights or without an allocation is CUDA_ERROR_ILLEGAL_ADDRESS; `host_allowed` says
 * that an address nobody allocated is ordinary host memory.
 */
CUresult sim_pin(struct CUctx_st *context, uint64_t address, uint64_t bytes, enum sim_access access,
		 bool host_allowed, bool any_device);
void sim_unpin(struct CUctx_st *context, uint64_t address, uint64_t bytes);
