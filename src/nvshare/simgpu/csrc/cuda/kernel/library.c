/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the libraries and their kernels: modules that belong to no context. Protected by sim.lock.
 */
#include <stdlib.h>
#include <string.h>

#include "kernel/module.h"
#include "stream/stream.h"

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	struct sim_names names;
	CUresult result;

	if (!library || !code || (numJitOptions > 0 && (!jitOptions || !jitOptionsValues)) ||
	    (numLibraryOptions > 0 && (!libraryOptions || !libraryOptionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_names_read(code, &names);
	if (result != CUDA_SUCCESS) {
		sim_names_free(&names);
		return result;
	}
	sim_lock();
	*library = calloc(1, sizeof(**library));
	(*library)->entries = names;
	sim_register_locked(*library, SIM_LIBRARY);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
				   CUjit_option *jitOptions, void **jitOptionsValues,
				   unsigned int numJitOptions, CUlibraryOption *libraryOptions,
				   void **libraryOptionValues, unsigned int numLibraryOptions)
{
	CUresult result;
	char *text;

	if (!library || !fileName)
		return CUDA_ERROR_INVALID_VALUE;
	text = sim_read_file(fileName);
	if (!text)
		return CUDA_ERROR_FILE_NOT_FOUND;
	result = sim_cuLibraryLoadData(library, text, jitOptions, jitOptionsValues, numJitOptions,
				       libraryOptions, libraryOptionValues, numLibraryOptions);
	free(text);
	return result;
}

CUresult sim_cuLibraryUnload(CUlibrary library)
{
	sim_lock();
	if (!sim_is_locked(library, SIM_LIBRARY)) {
		sim_unlock();
		return CUDA_ERROR_INVALID_HANDLE;
	}
	sim_forget_locked(library);
	for (int i = 0; i < sim_device_count(); i++) {
		if (sim.primary[i])
			sim_context_idle_locked(sim.primary[i]);
	}
	sim_module_free_library_locked(library);
	while (library->kernels) {
		struct CUkern_st *kernel = library->kernels;

		library->kernels = kernel->next;
		sim_forget_locked(kernel);
		free(kernel);
	}
	sim_names_free(&library->entries);
	free(library);
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult kernel_locked(struct CUlib_st *library, const char *name, struct CUkern_st **out)
{
	const struct sim_kernel *kernel = NULL;
	struct CUkern_st *found = library->kernels;

	for (unsigned int i = 0; !kernel && i < library->entries.count; i++) {
		if (strcmp(library->entries.names[i], name) == 0)
			kernel = sim_kernel_find(name);
	}
	if (!kernel)
		return CUDA_ERROR_NOT_FOUND;
	while (found && found->kernel != kernel)
		found = found->next;
	if (!found) {
		found = calloc(1, sizeof(*found));
		found->library = library;
		found->kernel = kernel;
		found->next = library->kernels;
		library->kernels = found;
		sim_register_locked(found, SIM_KERNEL);
	}
	*out = found;
	return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	if (!pKernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(library, SIM_LIBRARY))
		result = kernel_locked(library, name, pKernel);
	sim_unlock();
	return result;
}

CUresult sim_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	CUresult result = CUDA_SUCCESS;

	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(lib, SIM_LIBRARY))
		*count = lib->entries.count;
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

CUresult sim_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	CUresult result = CUDA_SUCCESS;

	if (!kernels)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(lib, SIM_LIBRARY))
		result = CUDA_ERROR_INVALID_HANDLE;
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < numKernels && i < lib->entries.count;
	     i++)
		result = kernel_locked(lib, lib->entries.names[i], &kernels[i]);
	sim_unlock();
	return result;
}

CUresult sim_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pMod)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(library, SIM_LIBRARY))
		*pMod = sim_module_of_library_locked(context, library);
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

/* No library here has variables. */
static CUresult no_variable(CUlibrary library, const void *answer, const char *name)
{
	bool valid;

	if (!answer || !name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	valid = sim_is_locked(library, SIM_LIBRARY);
	sim_unlock();
	return valid ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				const char *name)
{
	return no_variable(library, dptr ? (void *)dptr : (void *)bytes, name);
}

CUresult sim_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				 const char *name)
{
	return no_variable(library, dptr ? (void *)dptr : (void *)bytes, name);
}

CUresult sim_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(kernel, SIM_KERNEL))
		result = sim_function_locked((CUfunction)(void *)kernel, context, pFunc);
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

CUresult sim_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	CUresult result = CUDA_SUCCESS;

	if (!pLib)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(kernel, SIM_KERNEL))
		*pLib = kernel->library;
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}
