/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes that users write.
 */
#pragma once

#include <stdint.h>

#include "protocol/size.h"

/* cdef begin */
/* What a text means, see protocol/size.h. Only what is fine is written to `bytes`. */
enum nvs_size nvs_size_of(const char *text, uint64_t *bytes);
/* cdef end */
/* What is wrong with it, as the rest of a sentence that begins with the text. */
const char *nvs_size_fault(enum nvs_size read);
