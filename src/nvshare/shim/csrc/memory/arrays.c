/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of arrays, pure: see arrays.h.
 */
#include "memory/arrays.h"

#define ARRAY3D_LAYERED 0x01
#define ARRAY3D_CUBEMAP 0x04
#define ARRAY3D_SPARSE 0x40
#define ARRAY3D_DEFERRED_MAPPING 0x80

/*
 * By CUarray_format. First the formats of which the bits of one channel are known, then those of
 * which the bits of all channels together are.
 */
static const uint8_t channel_bits[] = {
	[0x01] = 8,  [0x02] = 16, [0x03] = 32, [0x08] = 8, [0x09] = 16, [0x0a] = 32, /* integers */
	[0x10] = 16, [0x20] = 32, /* half, float */
};

static const uint8_t pixel_bits[] = {
	/* 10, 10, 10 and 2 bits */
	[0x50] = 32,
	/* packed 4:2:2, 4:4:4 */
	[0x51] = 16,
	[0x52] = 24,
	/* semi-planar 4:2:0, 4:2:2, 4:4:4 */
	[0x53] = 12,
	[0x54] = 24,
	[0x55] = 16,
	[0x56] = 32,
	[0x57] = 24,
	[0x58] = 48,
	/* planar */
	[0x59] = 12,
	[0x5a] = 24,
	[0x5b] = 16,
	[0x5c] = 32,
	[0x5d] = 24,
	[0x5e] = 48,
	/* BC1; BC2, BC3; BC4; BC5, BC6H, BC7 */
	[0x91 ... 0x92] = 4,
	[0x93 ... 0x96] = 8,
	[0x97 ... 0x98] = 4,
	[0x99 ... 0x9e] = 8,
	/* P010, P016, NV16, P210, P216 */
	[0x9f] = 24,
	[0xa1] = 24,
	[0xa2] = 16,
	[0xa3 ... 0xa4] = 32,
	/* YUY2, Y210, Y216, AYUV, Y410 */
	[0xa5] = 16,
	[0xa6 ... 0xa9] = 32,
	/* NV12, Y416, 4:4:4 */
	[0xb0] = 12,
	[0xb1] = 64,
	[0xb2] = 24,
	[0xb3] = 48,
	[0xb4] = 24,
	[0xb5] = 48,
	/* unsigned normalized */
	[0xc0] = 8,
	[0xc1] = 16,
	[0xc2] = 32,
	[0xc3] = 16,
	[0xc4] = 32,
	[0xc5] = 64,
	/* signed normalized */
	[0xc6] = 8,
	[0xc7] = 16,
	[0xc8] = 32,
	[0xc9] = 16,
	[0xca] = 32,
	[0xcb] = 64,
};

/* A format that a later CUDA adds counts as 32 bits for each channel. */
static uint64_t element_bits(unsigned int format, unsigned int channels)
{
	if (format < sizeof(pixel_bits) && pixel_bits[format])
		return pixel_bits[format];
	if (format < sizeof(channel_bits) && channel_bits[format])
		return (uint64_t)channel_bits[format] * channels;
	return 32ull * channels;
}

static uint64_t extent(uint64_t size, unsigned int level)
{
	uint64_t reduced = level < 64 ? size >> level : 0;

	return reduced ? reduced : 1;
}

/* A layer is never reduced, and each is an array of its own. */
static uint64_t level_elements(const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor, unsigned int level)
{
	unsigned int depth_level =
		descriptor->flags & (ARRAY3D_LAYERED | ARRAY3D_CUBEMAP) ? 0 : level;
	uint64_t elements;

	if (__builtin_mul_overflow(extent(descriptor->width, level),
				   extent(descriptor->height, level), &elements) ||
	    __builtin_mul_overflow(elements, extent(descriptor->depth, depth_level), &elements))
		return 0;
	return elements;
}

uint64_t nvs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor, unsigned int levels)
{
	uint64_t elements = 0, bits;

	if (!descriptor || !descriptor->width ||
	    descriptor->flags & (ARRAY3D_SPARSE | ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned int level = 0; level < levels && level < 32; level++)
		if (__builtin_add_overflow(elements, level_elements(descriptor, level), &elements))
			return 0;
	if (__builtin_mul_overflow(
		    elements, element_bits((unsigned int)descriptor->format, descriptor->channels),
		    &bits))
		return 0;
	return bits / 8 + (bits % 8 != 0);
}
