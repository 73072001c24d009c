/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fingerprint of bytes: SHA-256.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
#define NVS_DIGEST_BYTES 32

void nvs_digest(uint8_t digest[NVS_DIGEST_BYTES], const void *data, size_t bytes);
/* cdef end */
