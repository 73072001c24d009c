/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked and set about functions and kernels, and how many blocks of them fit. Protected
 * by sim.lock.
 */
#include "kernel/module.h"

#define MAX_THREADS 1024
#define MULTIPROCESSORS 132
#define THREADS_OF_MULTIPROCESSOR 2048
#define BLOCKS_OF_MULTIPROCESSOR 32
#define LARGEST_SHARED_BYTES 232448

enum { /* CUfunction_attribute */
	MAX_THREADS_PER_BLOCK = 0,
	REGISTERS = 4,
	PTX_VERSION = 5,
	BINARY_VERSION = 6,
	DYNAMIC_BYTES = 8,
	CARVEOUT = 9
};

/* What does not depend on the function, or -1. */
static int fixed_attribute(CUfunction_attribute attribute)
{
	switch (attribute) {
	case MAX_THREADS_PER_BLOCK:
		return MAX_THREADS;
	case REGISTERS:
		return 16;
	case PTX_VERSION:
		return 70;
	case BINARY_VERSION:
		return 90;
	default:
		return attribute >= 0 && attribute < 18 ? 0 : -1;
	}
}

/* The function behind a handle; kernels of libraries count in the current context. */
static CUresult function_of(const void *handle, struct CUfunc_st **function)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	result = sim_function_locked((CUfunction)(uintptr_t)handle, context, function);
	sim_unlock();
	return result;
}

static CUresult get_attribute(int *out, CUfunction_attribute attribute, const void *handle)
{
	struct CUfunc_st *function;
	CUresult result = function_of(handle, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!out || fixed_attribute(attribute) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (attribute == DYNAMIC_BYTES)
		*out = function->dynamic_shared_bytes;
	else if (attribute == CARVEOUT)
		*out = function->carveout;
	else
		*out = fixed_attribute(attribute);
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult set_attribute(const void *handle, CUfunction_attribute attribute, int value)
{
	struct CUfunc_st *function;
	CUresult result = function_of(handle, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (attribute == DYNAMIC_BYTES ? value < 0 || value > LARGEST_SHARED_BYTES
				       : attribute != CARVEOUT || value < -1 || value > 100)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*(attribute == DYNAMIC_BYTES ? &function->dynamic_shared_bytes : &function->carveout) =
		value;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	return get_attribute(pi, attrib, hfunc);
}

CUresult sim_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	return set_attribute(hfunc, attrib, value);
}

CUresult sim_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
				  CUdevice dev)
{
	return sim_device_exists(dev) ? get_attribute(pi, attrib, kernel)
				      : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
				  CUdevice dev)
{
	return sim_device_exists(dev) ? set_attribute(kernel, attrib, val)
				      : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult check_config(const void *handle, int config, int largest)
{
	struct CUfunc_st *function;
	CUresult result = function_of(handle, &function);

	if (result != CUDA_SUCCESS)
		return result;
	return config >= 0 && config <= largest ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	return check_config(hfunc, config, 3);
}

CUresult sim_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	return check_config(hfunc, config, 2);
}

CUresult sim_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	return sim_device_exists(dev) ? check_config(kernel, config, 3) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction hfunc)
{
	struct CUfunc_st *function;
	CUresult result = function_of(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = function->kernel->name;
	return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetName(const char **name, CUkernel hfunc)
{
	return sim_cuFuncGetName(name, (CUfunction)(void *)hfunc);
}

CUresult sim_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
				size_t *paramSize)
{
	struct CUfunc_st *function;
	CUresult result = function_of(func, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!paramOffset || paramIndex >= function->kernel->parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	*paramOffset = sim_kernel_offset(function->kernel, (unsigned int)paramIndex);
	if (paramSize)
		*paramSize = function->kernel->sizes[paramIndex];
	return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
				  size_t *paramSize)
{
	return sim_cuFuncGetParamInfo((CUfunction)(void *)kernel, paramIndex, paramOffset,
				      paramSize);
}

CUresult sim_cuFuncGetParamCount(CUfunction func, size_t *paramCount)
{
	struct CUfunc_st *function;
	CUresult result = function_of(func, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!paramCount)
		return CUDA_ERROR_INVALID_VALUE;
	*paramCount = function->kernel->parameter_count;
	return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetParamCount(CUkernel kernel, size_t *paramCount)
{
	return sim_cuFuncGetParamCount((CUfunction)(void *)kernel, paramCount);
}

CUresult sim_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct CUfunc_st *function;
	CUresult result = function_of(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!hmod)
		return CUDA_ERROR_INVALID_VALUE;
	*hmod = function->module;
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction hfunc)
{
	struct CUfunc_st *function;
	CUresult result = function_of(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	*state = 1;
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncLoad(CUfunction hfunc)
{
	struct CUfunc_st *function;

	return function_of(hfunc, &function);
}

static int blocks_that_fit(int block_threads)
{
	int warps = (block_threads + 31) / 32;
	int blocks = THREADS_OF_MULTIPROCESSOR / (warps * 32);

	return blocks < BLOCKS_OF_MULTIPROCESSOR ? blocks : BLOCKS_OF_MULTIPROCESSOR;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
								  int blockSize,
								  size_t dynamicSMemSize,
								  unsigned int flags)
{
	struct CUfunc_st *function;
	CUresult result = function_of(func, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!numBlocks || blockSize <= 0 || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*numBlocks = blockSize <= MAX_THREADS ? blocks_that_fit(blockSize) : 0;
	if (dynamicSMemSize > 0 && (size_t)*numBlocks > LARGEST_SHARED_BYTES / dynamicSMemSize)
		*numBlocks = (int)(LARGEST_SHARED_BYTES / dynamicSMemSize);
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
							 int blockSize, size_t dynamicSMemSize)
{
	return sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
									dynamicSMemSize, 0);
}

CUresult
sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
					      CUoccupancyB2DSize blockSizeToDynamicSMemSize,
					      size_t dynamicSMemSize, int blockSizeLimit,
					      unsigned int flags)
{
	size_t shared_bytes = dynamicSMemSize;
	int blocks;
	CUresult result;

	if (!minGridSize || !blockSize || blockSizeLimit < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*blockSize =
		blockSizeLimit > 0 && blockSizeLimit < MAX_THREADS ? blockSizeLimit : MAX_THREADS;
	if (blockSizeToDynamicSMemSize)
		shared_bytes = blockSizeToDynamicSMemSize(*blockSize);
	result = sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, func, *blockSize,
									  shared_bytes, flags);
	*minGridSize = blocks * MULTIPROCESSORS;
	return result;
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
					      CUoccupancyB2DSize blockSizeToDynamicSMemSize,
					      size_t dynamicSMemSize, int blockSizeLimit)
{
	return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
							     blockSizeToDynamicSMemSize,
							     dynamicSMemSize, blockSizeLimit, 0);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
						     int numBlocks, int blockSize)
{
	struct CUfunc_st *function;
	CUresult result = function_of(func, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*dynamicSmemSize = (size_t)(LARGEST_SHARED_BYTES / numBlocks);
	return CUDA_SUCCESS;
}
