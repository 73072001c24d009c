/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process reports of itself to `nvshare-ctl doctor`: a file that the library maps and writes
 * as things happen, so that nothing is lost however the process ends. It is made only where the
 * environment names a folder for it, and by processes that have a driver loaded.
 *
 * Whoever runs in the process can write anything here. Numbers are in the machine's byte order, and
 * are sums or the highest so far; a reader may find some newer than others. cffi reads the part
 * between the two "cdef" marks, so that part holds plain declarations only.
 */
#ifndef NVSHARE_REPORT_LAYOUT_H
#define NVSHARE_REPORT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
#define NVS_REPORT_MAGIC 0x6e76732d7265706f
#define NVS_REPORT_NAMES 2048
#define NVS_REPORT_NAME_BYTES 84
#define NVS_REPORT_COMMAND_BYTES 256
#define NVS_REPORT_DEVICES 64

/* How the program came to a function of the driver. */
enum nvs_report_route {
	NVS_ROUTE_LINKED = 1,	    /* an object in memory names it */
	NVS_ROUTE_DLSYM = 2,	    /* dlsym gave it */
	NVS_ROUTE_PROC_ADDRESS = 4, /* cuGetProcAddress gave it */
	NVS_ROUTE_TABLE = 8,	    /* cuGetExportTable gave it: a whole table */
};

enum nvs_report_name_state {
	NVS_REPORT_NAME_FREE = 0,
	NVS_REPORT_NAME_BEGUN = 1, /* is being written, or its writer has ended */
	NVS_REPORT_NAME_READY = 2,
};

/*
 * A function: its exported name where it is hooked or was looked up by that; where cuGetProcAddress
 * gave the driver's own one, the name that was asked for. Of a table its id, and behind a space the
 * library that asked, if it has a name.
 */
struct nvs_report_name {
	uint32_t state;	 /* enum nvs_report_name_state */
	uint32_t hooked; /* routes that led to the hook */
	uint32_t driver; /* routes that led to the driver's own function */
	char name[NVS_REPORT_NAME_BYTES];
};

/* Device memory that can't be moved, and why. */
enum nvs_report_bytes {
	NVS_BYTES_ARRAYS = 0,
	NVS_BYTES_POOLS = 1,
	NVS_BYTES_GRAPHS = 2,
	NVS_BYTES_HANDLES = 3, /* made by cuMemCreate in a way that we can't move */
	NVS_BYTES_SHARED = 4,  /* others may use it: CUDA IPC, exported, multicast */
	NVS_BYTES_OTHER = 5,   /* plain memory where the backend moves none, bound managed memory */
	NVS_BYTES_KINDS = 6,
};

enum nvs_report_device_flags {
	NVS_REPORT_USED = 1,	   /* the library knows a context on it */
	NVS_REPORT_REGISTERED = 2, /* a scheduler took the process */
	NVS_REPORT_REFUSED = 4,	   /* a scheduler refused it */
	NVS_REPORT_UNLOCKED = 8,   /* the gate was open without a scheduler's word */
	NVS_REPORT_IN_GANG = 16,   /* the scheduler said that it is in one */
};

struct nvs_report_device {
	uint8_t uuid[16];
	uint32_t flags;	      /* enum nvs_report_device_flags */
	uint32_t backend;     /* enum nvs_wire_backend */
	uint32_t ties;	      /* a bit for each of enum nvs_wire_tie */
	uint32_t swaps;	      /* 1: its memory swaps, whatever the backend says */
	uint64_t turns;	      /* how often it got the lock */
	uint64_t given_back;  /* how often it gave it back because it was asked to, or idle */
	uint64_t waits;	      /* how often threads began to wait for it */
	uint64_t submissions; /* through the gate, when last looked at */
	uint64_t movable;
	uint64_t movable_most;
	uint64_t fixed;
	uint64_t fixed_most;
	uint64_t bytes[NVS_BYTES_KINDS];
	uint64_t bytes_most[NVS_BYTES_KINDS];
};

struct nvs_report {
	uint64_t magic;
	uint32_t pid;	  /* in the process's own pid namespace */
	uint32_t notices; /* a bit for each of enum nvs_notice that was said */
	uint32_t deep;	  /* 1: a driver's symbol tables were changed, for RTLD_DEEPBIND */
	uint32_t lost;	  /* names for which there was no room */
	char command[NVS_REPORT_COMMAND_BYTES];
	struct nvs_report_device devices[NVS_REPORT_DEVICES];
	struct nvs_report_name names[NVS_REPORT_NAMES];
};
/* cdef end */

_Static_assert(sizeof(struct nvs_report_name) == 96, "three words and the name");
_Static_assert((NVS_REPORT_NAMES & (NVS_REPORT_NAMES - 1)) == 0, "a power of two");

#endif
