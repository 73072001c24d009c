/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment says that this process may have and how much it matters.
 */
#pragma once

#include <stdbool.h>

#include "protocol/wire.h"

/*
 * Reads the environment at the first call. What is not set there, or is wrong, which is said once,
 * is zero. Never NULL.
 */
const struct nvs_wire_terms *nvs_terms(void);
/* A limit is set that means nothing, which was said: the process is to make no context. */
bool nvs_terms_invalid(void);

/*
 * Whether that call has been. Exported, for the package's limit() in the program itself, which also
 * learns from it that the library is loaded.
 */
int nvs_terms_are_read(void);
