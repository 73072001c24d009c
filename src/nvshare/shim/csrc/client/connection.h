/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to the scheduler: whole frames in both directions, and no call that blocks.
 * Belongs to the client's thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/files.h"
#include "protocol/wire.h"

struct nvs_connection {
	struct nvs_file socket;
	_Atomic uint32_t
		listener; /* the pid of who listens; 0: not known. Any thread may read it */
	const char *path; /* of the socket; after the end of the connection that of the last one */
	struct nvs_file descriptor; /* that came with `input` */
	struct nvs_file spare;	    /* has the number that the next descriptor gets */
	bool broken;		    /* writing failed: the connection is to be ended */
	bool taken;		    /* the program closed it; known until the next one is opened */
	size_t received;	    /* bytes in `input` */
	struct nvs_frame input;
	size_t text_length;
	/* of `input`, whole, if it has one; no orders to a terminal, which shows it */
	char text[NVS_WIRE_WHOLE_TEXT_BYTES];
};

#define NVS_NO_CONNECTION { .socket = NVS_NO_FILE, .descriptor = NVS_NO_FILE, .spare = NVS_NO_FILE }

struct nvs_peer {
	uint32_t pid, uid;
};

enum nvs_received {
	NVS_RECEIVED_NOTHING = 0,  /* no whole frame yet */
	NVS_RECEIVED_FRAME = 1,	   /* `input` is one, until the next call */
	NVS_RECEIVED_NO_FRAME = 2, /* `input` can't become a frame of this protocol */
	NVS_RECEIVED_END = 3,	   /* the scheduler is gone */
};

/* False: nobody whom we believe listens at any of the configured paths; there is no connection. */
bool nvs_connection_open(struct nvs_connection *connection);
/* Why nothing at the scheduler's socket is to be believed; NULL: it may be. */
const char *nvs_distrust(const char *socket_path);
/* Whether anybody listens at a path. */
bool nvs_connection_answers(const char *path);
/* Who listens at a socket without a file, as the kernel says it; false: nobody, or nobody accepts.
 */
bool nvs_connection_peer(const char *name, struct nvs_peer *owner);
void nvs_connection_close(struct nvs_connection *connection);
/* Closes all of its files. With nvs_files_lock held. */
void nvs_connection_close_files(struct nvs_connection *connection);
/* Whether the program closed it under us: its end is to be taken note of. */
bool nvs_connection_lost(struct nvs_connection *connection);
/* Failing sets `broken`. */
void nvs_connection_send(struct nvs_connection *connection, const struct nvs_frame *frame);
/* With a descriptor, which stays the caller's. False: it can't go now; the frame did not either. */
bool nvs_connection_send_with(struct nvs_connection *connection, const struct nvs_frame *frame,
			      int descriptor);
enum nvs_received nvs_connection_receive(struct nvs_connection *connection);
/* Whether a descriptor can still come when the last one stays open: it needs a number. */
bool nvs_connection_has_spare(struct nvs_connection *connection);
