/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches from before CUDA 4, which set shape and parameters on the function first. The function
 * is protected by sim.lock.
 */
#include <string.h>

#include "kernel/module.h"

static CUresult with_function(CUfunction handle, struct CUfunc_st **function)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	if (sim_is_locked(handle, SIM_FUNCTION))
		*function = handle;
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

CUresult sim_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	struct CUfunc_st *function;
	CUresult result = with_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (x <= 0 || y <= 0 || z <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	function->block[0] = (unsigned int)x;
	function->block[1] = (unsigned int)y;
	function->block[2] = (unsigned int)z;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	struct CUfunc_st *function;
	CUresult result = with_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	function->shared_bytes = bytes;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	struct CUfunc_st *function;
	CUresult result = with_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	return numbytes <= SIM_PARAMETER_BYTES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	struct CUfunc_st *function;
	CUresult result = with_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr || offset < 0 || offset > SIM_PARAMETER_BYTES ||
	    numbytes > SIM_PARAMETER_BYTES - (unsigned int)offset)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	memcpy(function->parameters + offset, ptr, numbytes);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	return sim_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult sim_cuParamSetf(CUfunction hfunc, int offset, float value)
{
	return sim_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult sim_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	unsigned char parameters[SIM_PARAMETER_BYTES];
	size_t size = sizeof(parameters);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
			  &size, CU_LAUNCH_PARAM_END };
	unsigned int block[3], shared_bytes;
	struct CUfunc_st *function;
	CUresult result = with_function(f, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (grid_width <= 0 || grid_height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	memcpy(parameters, function->parameters, sizeof(parameters));
	memcpy(block, function->block, sizeof(block));
	shared_bytes = function->shared_bytes;
	sim_unlock();
	return sim_cuLaunchKernel(f, (unsigned int)grid_width, (unsigned int)grid_height, 1,
				  block[0], block[1], block[2], shared_bytes, hStream, NULL, extra);
}

CUresult sim_cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	return sim_cuLaunchGridAsync(f, grid_width, grid_height, CU_STREAM_LEGACY);
}

CUresult sim_cuLaunch(CUfunction f)
{
	return sim_cuLaunchGrid(f, 1, 1);
}
