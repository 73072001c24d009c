/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the VMM calls that other processes may map, too: each is a file in memory, and a
 * descriptor of it is what is exported. Behind the memory's bytes the file says what it is. It
 * counts for the process that made it, as long as that has it, and for no other. Owns nothing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/range.h"

#define MAGIC 0x3145524148534d53ull

struct label {
	uint64_t magic;
	uint64_t bytes;
	uint32_t place; /* of the device among all of the folder; UINT32_MAX: host memory */
	CUmemAllocationProp_v1 properties;
};

int sim_sharing_new_file(const CUmemAllocationProp_v1 *properties, uint64_t bytes)
{
	int file = (int)syscall(SYS_memfd_create, "simulated GPU memory", 1u /* MFD_CLOEXEC */);
	struct label label;

	memset(&label, 0, sizeof(label));
	label.magic = MAGIC;
	label.bytes = bytes;
	label.place = UINT32_MAX;
	label.properties = *properties;
	if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		label.place = sim.state.place[properties->location.id];
	if (file >= 0 &&
	    pwrite(file, &label, sizeof(label), (off_t)bytes) == (ssize_t)sizeof(label))
		return file;
	if (file >= 0)
		close(file);
	return -1;
}

/* What a descriptor is of, in this process's numbers; false: it is not memory of these devices. */
static bool read_label(int file, struct label *label, int *device)
{
	struct stat status;

	if (fstat(file, &status) < 0 || status.st_size <= (off_t)sizeof(*label) ||
	    pread(file, label, sizeof(*label), status.st_size - (off_t)sizeof(*label)) !=
		    (ssize_t)sizeof(*label) ||
	    label->magic != MAGIC)
		return false;
	*device = -1;
	for (int i = 0; i < sim_device_count(); i++) {
		if (sim.state.place[i] == label->place)
			*device = label->properties.location.id = i;
	}
	return *device >= 0 || label->place == UINT32_MAX;
}

/* Never given out, but memory that could not be had either is told apart. */
CUresult sim_cuIpcGetMemHandle(CUipcMemHandle_v1 *pHandle, CUdeviceptr_v2 dptr)
{
	const struct sim_range *range;
	bool wrong;

	sim_lock();
	range = sim_range_live_locked(dptr);
	wrong = !pHandle || !range || range->kind != SIM_RANGE_DEVICE;
	sim_unlock();
	return wrong ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMemExportToShareableHandle(void *shareableHandle,
					  CUmemGenericAllocationHandle_v1 handle,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	const struct sim_physical *physical = (void *)(uintptr_t)handle;
	int descriptor = -1;

	if (!shareableHandle || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	    sim_is_locked(physical, SIM_PHYSICAL) && physical->file >= 0)
		descriptor = fcntl(physical->file, F_DUPFD_CLOEXEC, 0);
	sim_unlock();
	if (descriptor < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)shareableHandle = descriptor;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle_v1 *handle, void *osHandle,
					    CUmemAllocationHandleType shHandleType)
{
	struct sim_physical *physical;
	struct label label;
	int device, file;

	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !read_label((int)(intptr_t)osHandle, &label, &device))
		return CUDA_ERROR_INVALID_VALUE;
	file = fcntl((int)(intptr_t)osHandle, F_DUPFD_CLOEXEC, 0);
	if (file < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim_lock();
	physical = sim_physical_add_locked(&label.properties, device, label.bytes);
	physical->file = file;
	sim_unlock();
	*handle = (uint64_t)(uintptr_t)physical;
	return CUDA_SUCCESS;
}
