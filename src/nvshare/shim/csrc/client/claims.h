/* SPDX-License-Identifier: Apache-2.0 */
/* Which other scheduler has a device; gpu_claims.py says what a claim is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"

/*
 * Whether a scheduler claims the device that is not the process `but`, and who that is, as the
 * kernel says it.
 */
bool nvs_claims_find(const uint8_t uuid[16], uint32_t but, struct nvs_peer *owner);
