/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of a chunk's contents. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cuda/contents.h"

struct nvs_hash {
	uint64_t lanes[NVS_HASH_LANES];
	bool zeros; /* all of the contents are */
};

static inline bool nvs_hash_equal(const struct nvs_hash *one, const struct nvs_hash *other)
{
	return !memcmp(one->lanes, other->lanes, sizeof(one->lanes));
}
