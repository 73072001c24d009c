/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of one simulated device to another's memory, which all of them have. Protected by
 * sim.lock.
 */
#include "sim.h"

CUresult sim_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice_v1 dev, CUdevice_v1 peerDev)
{
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev) || !sim_device_exists(peerDev))
		return CUDA_ERROR_INVALID_DEVICE;
	*canAccessPeer = dev != peerDev;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
				     CUdevice_v1 srcDevice, CUdevice_v1 dstDevice)
{
	if (!value || attrib < 1 || attrib > 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(srcDevice) || !sim_device_exists(dstDevice) ||
	    srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attrib != 1; /* all alike, so none ranks behind another */
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(peerContext, SIM_CONTEXT) || peerContext == context) {
		result = CUDA_ERROR_INVALID_CONTEXT;
	} else if (peerContext->device == context->device) {
		result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	} else if (context->peers >> peerContext->device & 1) {
		result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	} else {
		context->peers |= 1ull << peerContext->device;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	if (!sim_is_locked(peerContext, SIM_CONTEXT))
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (!(context->peers >> peerContext->device & 1))
		result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	else
		context->peers &= ~(1ull << peerContext->device);
	sim_unlock();
	return result;
}
