/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of kernels, in all their forms: checks, parameters, submission. Owns nothing. */
#include "kernel/launch.h"

#include <string.h>

#include "kernel/module.h"
#include "stream/stream.h"

#define MAX_THREADS 1024u
#define MAX_BLOCK_Z 64u
#define MAX_GRID_YZ 65535u
#define MAX_RESIDENT_BLOCKS 4224u /* 132 multiprocessors, 32 blocks each */

/* The parameters as one buffer, from an array of pointers or from a tagged list. */
static CUresult gather(const struct sim_kernel *kernel, void **params, void **extra,
		       unsigned char *out)
{
	unsigned int bytes = sim_kernel_parameter_bytes(kernel);
	const void *buffer = NULL;
	size_t size = 0;

	if (params && extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (params) {
		for (unsigned int i = 0; i < kernel->parameter_count; i++) {
			if (!params[i])
				return CUDA_ERROR_INVALID_VALUE;
			memcpy(out + sim_kernel_offset(kernel, i), params[i], kernel->sizes[i]);
		}
		return CUDA_SUCCESS;
	}
	for (size_t i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)extra[i + 1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (!buffer || size < bytes)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(out, buffer, bytes);
	return CUDA_SUCCESS;
}

static CUresult check_shape(const unsigned int grid[3], const unsigned int block[3],
			    unsigned int shared_bytes, const struct CUfunc_st *function)
{
	for (int i = 0; i < 3; i++) {
		if (grid[i] == 0 || block[i] == 0)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (grid[0] > INT32_MAX || grid[1] > MAX_GRID_YZ || grid[2] > MAX_GRID_YZ)
		return CUDA_ERROR_INVALID_VALUE;
	if (block[0] > MAX_THREADS || block[1] > MAX_THREADS || block[2] > MAX_BLOCK_Z ||
	    (uint64_t)block[0] * block[1] * block[2] > MAX_THREADS)
		return CUDA_ERROR_INVALID_VALUE;
	return shared_bytes > (unsigned int)function->dynamic_shared_bytes
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

/* The first launch takes memory, as a driver that loads code lazily does. */
static CUresult load_locked(struct CUctx_st *context)
{
	if (!context->launched)
		context->launched = sim_state_charge(
			&sim.state, context->device,
			sim_state_device(&sim.state, context->device)->launch_bytes);
	return context->launched ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_launch_prepare(struct CUctx_st *context, const struct sim_launch_request *request,
			    struct sim_op *op)
{
	struct sim_launch *launch = &op->u.launch;
	struct CUfunc_st *function;
	CUresult result;

	sim_lock();
	result = request->function ? sim_function_locked(request->function, context, &function)
				   : CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS && function->module->context != context)
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		result =
			check_shape(request->grid, request->block, request->shared_bytes, function);
	if (result == CUDA_SUCCESS)
		result = load_locked(context);
	if (result == CUDA_SUCCESS) {
		memset(op, 0, sizeof(*op));
		op->kind = SIM_OP_KERNEL;
		op->context = context;
		launch->function = function;
		launch->kernel = function->kernel;
		memcpy(launch->grid, request->grid, sizeof(launch->grid));
		memcpy(launch->block, request->block, sizeof(launch->block));
		launch->shared_bytes = request->shared_bytes;
	}
	sim_unlock();
	return result == CUDA_SUCCESS
		       ? gather(launch->kernel, request->params, request->extra, launch->parameters)
		       : result;
}

/* A stream of another context cannot be launched into. */
static CUresult check_stream(struct CUctx_st *context, CUstream handle)
{
	struct CUstream_st *stream;
	CUresult result;

	sim_lock();
	result = sim_stream_locked(handle, &stream);
	if (result == CUDA_SUCCESS && stream->context != context)
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

static CUresult launch(const struct sim_launch_request *request, CUstream stream)
{
	struct CUctx_st *context;
	struct sim_op op;
	CUresult result = sim_current(&context);

	if (result == CUDA_SUCCESS)
		result = check_stream(context, stream);
	if (result == CUDA_SUCCESS)
		result = sim_launch_prepare(context, request, &op);
	return result == CUDA_SUCCESS ? sim_submit(stream, &op, NULL) : result;
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
			    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
			    void **kernelParams, void **extra)
{
	struct sim_launch_request request = { f,
					      { gridDimX, gridDimY, gridDimZ },
					      { blockDimX, blockDimY, blockDimZ },
					      sharedMemBytes,
					      kernelParams,
					      extra };

	return launch(&request, hStream);
}

static bool is_too_large_to_cooperate(const struct sim_launch_request *request)
{
	return (uint64_t)request->grid[0] * request->grid[1] * request->grid[2] >
	       MAX_RESIDENT_BLOCKS;
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
				       unsigned int gridDimZ, unsigned int blockDimX,
				       unsigned int blockDimY, unsigned int blockDimZ,
				       unsigned int sharedMemBytes, CUstream hStream,
				       void **kernelParams)
{
	struct sim_launch_request request = { f,
					      { gridDimX, gridDimY, gridDimZ },
					      { blockDimX, blockDimY, blockDimZ },
					      sharedMemBytes,
					      kernelParams,
					      NULL };

	if (is_too_large_to_cooperate(&request))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return launch(&request, hStream);
}

/*
 * Most attributes say how a kernel is scheduled, and have no effect here; those that name an event
 * record it.
 */
static CUresult apply_attributes(const CUlaunchConfig *config,
				 const struct sim_launch_request *request, CUevent *event)
{
	for (unsigned int i = 0; i < config->attribute_count; i++) {
		const CUlaunchAttribute *attribute = &config->attributes[i];

		if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
		    attribute->value.cooperative && is_too_large_to_cooperate(request))
			return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
		if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
		    attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
			*event = attribute->value.event.event;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
			      void **extra, CUstream null_stream)
{
	struct sim_launch_request request = { .function = f,
					      .params = kernelParams,
					      .extra = extra };
	CUevent event = NULL;
	CUstream stream;
	CUresult result;

	if (!config || (config->attribute_count > 0 && !config->attributes))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(request.grid, config->grid, sizeof(request.grid));
	memcpy(request.block, config->block, sizeof(request.block));
	request.shared_bytes = config->shared_bytes;
	stream = config->stream ? config->stream : null_stream;
	result = apply_attributes(config, &request, &event);
	if (result == CUDA_SUCCESS)
		result = launch(&request, stream);
	return result == CUDA_SUCCESS && event ? sim_cuEventRecord(event, stream) : result;
}

CUresult sim_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS_v1 *launchParamsList,
						  unsigned int numDevices, unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (!launchParamsList || numDevices == 0 || numDevices > (unsigned int)sim_device_count() ||
	    flags & ~3u)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < numDevices; i++) {
		const CUDA_LAUNCH_PARAMS_v1 *one = &launchParamsList[i];
		struct sim_launch_request request = { .function = one->function,
						      .shared_bytes = one->shared_bytes,
						      .params = one->params };
		struct CUstream_st *stream;
		struct sim_op op;

		memcpy(request.grid, one->grid, sizeof(request.grid));
		memcpy(request.block, one->block, sizeof(request.block));
		sim_lock();
		result = sim_is_locked(one->stream, SIM_STREAM)
				 ? sim_stream_locked(one->stream, &stream)
				 : CUDA_ERROR_INVALID_HANDLE;
		sim_unlock();
		if (result == CUDA_SUCCESS)
			result = sim_launch_prepare(stream->context, &request, &op);
		if (result == CUDA_SUCCESS)
			result = sim_submit(one->stream, &op, NULL);
	}
	return result;
}
