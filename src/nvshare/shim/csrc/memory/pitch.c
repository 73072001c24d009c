/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows as the driver aligns them. No state, no lock.
 */
#include "memory/pitch.h"

#define PITCH_BYTES 512u

CUresult nvs_pitch_alloc(CUresult (*alloc)(CUdeviceptr *pointer, size_t bytes),
			 CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
			 unsigned int element)
{
	size_t row, bytes;
	CUresult result;

	if (element != 4 && element != 8 && element != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_add_overflow(width, PITCH_BYTES - 1, &row))
		return CUDA_ERROR_OUT_OF_MEMORY;
	row -= row % PITCH_BYTES;
	if (__builtin_mul_overflow(row, height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = alloc(pointer, bytes);
	if (result == CUDA_SUCCESS)
		*pitch = row;
	return result;
}
