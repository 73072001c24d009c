/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes an array takes, from its descriptor: the driver says it only of arrays that have
 * no memory yet. 0 for a descriptor that is missing or makes no sense, and for sparse and deferred
 * ones, whose memory comes from cuMemCreate.
 */
#pragma once

#include "cuda/abi.h"

uint64_t nvs_array_bytes_v1(const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor);
uint64_t nvs_array_bytes(const CUDA_ARRAY_DESCRIPTOR_v2 *descriptor);
uint64_t nvs_array3d_bytes_v1(const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor);
/*
 * With `levels` mipmap levels, each half as wide, high and deep as the one before; 1 for a plain
 * array.
 */
uint64_t nvs_array3d_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor, unsigned int levels);
