/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes an array takes, from its descriptor: the driver says it only of arrays that have
 * no memory yet. 0 for a descriptor that is missing or makes no sense, and for sparse and deferred
 * ones, whose memory comes from cuMemCreate.
 */
#pragma once

#include "cuda/abi.h"

/*
 * With `levels` mipmap levels, each half as wide, high and deep as the one before; 1 for a plain
 * array.
 */
uint64_t nvs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor, unsigned int levels);
/* The same of one level, and of a descriptor of any version: of a flat array, or of any. */
#define NVS_ARRAY_OF(array, ...)                                                                \
	nvs_array_bytes((array) ? &(CUDA_ARRAY3D_DESCRIPTOR_v2){ .width = (array)->width,       \
								 .height = (array)->height,     \
								 .format = (array)->format,     \
								 .channels = (array)->channels, \
								 __VA_ARGS__ }                  \
				: NULL,                                                         \
			1)
#define NVS_FLAT_ARRAY_BYTES(array) NVS_ARRAY_OF(array, .depth = 0)
#define NVS_ARRAY_BYTES(array) NVS_ARRAY_OF(array, .depth = (array)->depth, .flags = (array)->flags)
