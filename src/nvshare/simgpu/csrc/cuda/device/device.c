/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked about a device. Owns nothing: the answers are the shared state's, or tables. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/gate.h"
#include "sim.h"

#define LARGEST_ATTRIBUTE 161
#define PCI_BUS_ID 33
#define PCI_DEVICE_ID 34
#define PCI_DOMAIN_ID 50

CUresult sim_cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim_device_count();
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice_v1 *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int len, CUdevice_v1 dev)
{
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (sim_gate_now() == SIM_GATE_CHECKPOINTED)
		return CUDA_ERROR_OPERATING_SYSTEM;
	snprintf(name, (size_t)len, "%s", sim_state_device(&sim.state, dev)->name);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice_v1 dev)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, sim_state_device(&sim.state, dev)->uuid, sizeof(uuid->bytes));
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice_v1 dev)
{
	return sim_cuDeviceGetUuid_v2(uuid, dev);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice_v1 dev)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = sim_state_device(&sim.state, dev)->total_bytes;
	return CUDA_SUCCESS;
}

static int attribute_of(CUdevice_attribute attribute, CUdevice device)
{
	switch (attribute) {
	case PCI_BUS_ID:
		return device + 1;
	case PCI_DEVICE_ID:
	case PCI_DOMAIN_ID:
		return 0;
#define SIM_ATTRIBUTE(number, value) \
	case number:                 \
		return value;
#include "device/attributes.def"
#undef SIM_ATTRIBUTE
	default:
		return 0;
	}
}

CUresult sim_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice_v1 dev)
{
	if (!pi || attrib < 1 || attrib > LARGEST_ATTRIBUTE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = attribute_of(attrib, dev);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice_v1 dev)
{
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*major = attribute_of(75, dev);
	*minor = attribute_of(76, dev);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetProperties(CUdevprop_v1 *prop, CUdevice_v1 dev)
{
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*prop = (CUdevprop_v1){
		.max_threads_per_block = attribute_of(1, dev),
		.max_threads_dim = { attribute_of(2, dev), attribute_of(3, dev),
				     attribute_of(4, dev) },
		.max_grid_size = { attribute_of(5, dev), attribute_of(6, dev),
				   attribute_of(7, dev) },
		.shared_memory_per_block = attribute_of(8, dev),
		.constant_memory = attribute_of(9, dev),
		.warp_size = attribute_of(10, dev),
		.max_pitch = attribute_of(11, dev),
		.registers_per_block = attribute_of(12, dev),
		.clock_khz = attribute_of(13, dev),
		.texture_alignment = attribute_of(14, dev),
	};
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice_v1 dev)
{
	if (!pciBusId || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", (unsigned int)dev + 1);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice_v1 *dev, const char *pciBusId)
{
	unsigned int first, second, third, domain = 0, bus;

	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:%x", &first, &second, &third) == 3) {
		domain = first;
		bus = second;
	} else if (sscanf(pciBusId, "%x:%x", &first, &second) == 2) {
		bus = first;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (domain != 0 || bus == 0 || !sim_device_exists((int)bus - 1))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (int)bus - 1;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	if (!pi || type != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = 0;
	return CUDA_SUCCESS;
}
