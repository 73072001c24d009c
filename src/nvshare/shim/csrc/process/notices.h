/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What whoever looks at this process should know about it: each is said once, in the log and by
 * every client to the scheduler. Any thread may call.
 */
#pragma once

#include <stdint.h>

enum nvs_notice {
	NVS_NOTICE_SECOND_DRIVER = 0,
	NVS_NOTICE_NOT_REDIRECTED = 1,
	NVS_NOTICE_PEER_ACCESS = 2,
	NVS_NOTICE_NO_IPC = 3,
	NVS_NOTICE_IPC = 4,
	NVS_NOTICE_UNMAPPED = 5,
	NVS_NOTICES = 6,
};

/* Says it, the first time in this process. Leaves errno alone. */
void nvs_notice(enum nvs_notice notice);
/* The text fits a frame. */
const char *nvs_notice_text(enum nvs_notice notice);
/* Those that were said, a bit for each. */
uint32_t nvs_notices_said(void);
/* Whom to tell that there is a new one. */
void nvs_notices_listen(void (*said)(void));
/* In a forked child: what the parent did is not the child's. */
void nvs_notices_forked(void);
