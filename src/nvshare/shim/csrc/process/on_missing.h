/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client does that finds no scheduler: a setting, and what the lock's state goes by.
 */
#pragma once

/* cdef begin */
enum nvs_on_missing {
	NVS_ON_MISSING_WAIT = 0, /* waits for one */
	NVS_ON_MISSING_RUN = 1,	 /* runs without a lock until there is one */
	NVS_ON_MISSING_FAIL = 2, /* lets submissions fail until there is one */
};
/* cdef end */
