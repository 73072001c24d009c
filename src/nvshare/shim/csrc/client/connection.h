/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to the scheduler: whole frames in both directions, and no call that blocks.
 * Belongs to the client's thread.
 */
#ifndef NVSHARE_CONNECTION_H
#define NVSHARE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/wire.h"

struct nvs_connection {
	int socket;	  /* -1: none */
	const char *path; /* of the socket; after the end of the connection that of the last one */
	int descriptor;	  /* that came with `input`; -1: none */
	bool broken;	  /* writing failed: the connection is to be ended */
	size_t received;  /* bytes in `input` */
	struct nvs_frame input;
};

enum nvs_received {
	NVS_RECEIVED_NOTHING = 0,  /* no whole frame yet */
	NVS_RECEIVED_FRAME = 1,	   /* `input` is one, until the next call */
	NVS_RECEIVED_NO_FRAME = 2, /* `input` can't become a frame of this protocol */
	NVS_RECEIVED_END = 3,	   /* the scheduler is gone */
};

/* False: nobody whom we believe listens at any of the configured paths; there is no connection. */
bool nvs_connection_open(struct nvs_connection *connection);
/* Whether anybody listens at a path. */
bool nvs_connection_answers(const char *path);
/* Closes `descriptor`, if there is one. */
void nvs_connection_close_descriptor(struct nvs_connection *connection);
void nvs_connection_close(struct nvs_connection *connection);
/* Failing sets `broken`. */
void nvs_connection_send(struct nvs_connection *connection, const struct nvs_frame *frame);
/* With a descriptor, which stays the caller's. False: it can't go now; the frame did not either. */
bool nvs_connection_send_with(struct nvs_connection *connection, const struct nvs_frame *frame,
			      int descriptor);
enum nvs_received nvs_connection_receive(struct nvs_connection *connection);

#endif
