/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the program that a stream calls. Owns nothing. */
#include "stream/stream.h"

CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct sim_op op = { .kind = SIM_OP_HOST };

	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	op.u.host.function = fn;
	op.u.host.data = userData;
	return sim_submit(hStream, &op, NULL);
}

CUresult sim_cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
				 unsigned int syncMode)
{
	if (syncMode > 1)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuLaunchHostFunc(hStream, fn, userData);
}

CUresult sim_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
				 unsigned int flags)
{
	struct sim_op op = { .kind = SIM_OP_CALLBACK };

	if (!callback || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	op.u.callback.function = callback;
	op.u.callback.data = userData;
	op.u.callback.stream = hStream;
	return sim_submit(hStream, &op, NULL);
}
