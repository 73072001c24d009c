/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what listens at a socket is a scheduler that this user may believe.
 */
#ifndef NVSHARE_TRUST_H
#define NVSHARE_TRUST_H

#include <stdbool.h>

/* Why nothing at the scheduler's socket is to be believed; NULL: it may be. */
const char *nvs_distrust(const char *socket_path);
/* Whether who listens at the other end of `socket`, connected to the path, may be believed. */
bool nvs_trust_peer(const char *socket_path, int socket);

#endif
