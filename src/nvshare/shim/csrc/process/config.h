/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of this process, from its environment.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "protocol/wire.h"

#define NVS_SOCKETS 4
#define NVS_SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

/* How plain device memory is served; each stands back for the next one that a device can do. */
enum nvs_memory_setting {
	NVS_MEMORY_SWAP = 0,
	NVS_MEMORY_MANAGED = 1,
	NVS_MEMORY_NATIVE = 2,
};

/* Whom the process belongs together with. */
enum nvs_gang_setting {
	NVS_GANG_FOUND = 0, /* whomever it turns out to be tied to */
	NVS_GANG_NAMED = 1, /* and all of one name */
	NVS_GANG_NONE = 2,  /* nobody */
};

struct nvs_config {
	/*
	 * where a scheduler may listen, in the order in which to look; empty: the path would be too
	 * long
	 */
	size_t socket_count;
	char sockets[NVS_SOCKETS][NVS_SOCKET_PATH_BYTES];
	int memory;			      /* enum nvs_memory_setting */
	int on_missing;			      /* enum nvs_on_missing */
	int gang;			      /* enum nvs_gang_setting */
	uint8_t gang_key[NVS_WIRE_KEY_BYTES]; /* the name, or the digest of a long one */
	uint32_t gang_size;		      /* processes of that name on this node; 0: not said */
	bool debug;	     /* says at once what it says otherwise when it lasts */
	bool single_oversub; /* one process may allocate more than the device has */
};

/* The value of a variable; NULL: it is not set, or nothing is in it. */
const char *nvs_variable(const char *name);
/*
 * Reads the environment at the first call, which must not come before the process uses a device,
 * and tells the log whether to debug. Never NULL.
 */
const struct nvs_config *nvs_config(void);
