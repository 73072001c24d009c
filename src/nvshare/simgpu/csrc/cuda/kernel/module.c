/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the modules and their functions. Protected by sim.lock. */
#include "kernel/module.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "stream/stream.h"

static struct CUmod_st *modules;

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static void add_name(struct sim_names *names, const char *start, size_t length)
{
	names->names = realloc(names->names, (names->count + 1) * sizeof(char *));
	names->names[names->count++] = strndup(start, length);
}

CUresult sim_names_read(const char *image, struct sim_names *names)
{
	const char *at = image;

	memset(names, 0, sizeof(*names));
	if (!strstr(image, ".version") || !strstr(image, ".target"))
		return CUDA_ERROR_INVALID_IMAGE;
	while ((at = strstr(at, ".entry")) != NULL) {
		size_t length = 0;

		at += strlen(".entry");
		at += strspn(at, " \t\r\n");
		while (is_name_char(at[length]))
			length++;
		if (length > 0)
			add_name(names, at, length);
		at += length;
	}
	return names->count > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

void sim_names_free(struct sim_names *names)
{
	for (unsigned int i = 0; i < names->count; i++)
		free(names->names[i]);
	free(names->names);
}

char *sim_read_file(const char *path)
{
	FILE *file = fopen(path, "rbe");
	size_t length = 0;
	char *text = NULL;

	if (!file)
		return NULL;
	for (;;) {
		size_t got;

		text = realloc(text, length + 65536 + 1);
		got = fread(text + length, 1, 65536, file);
		length += got;
		if (got == 0)
			break;
	}
	fclose(file);
	text[length] = '\0';
	return text;
}

static struct sim_names copy_names(const struct sim_names *names)
{
	struct sim_names copy = { 0 };

	for (unsigned int i = 0; i < names->count; i++)
		add_name(&copy, names->names[i], strlen(names->names[i]));
	return copy;
}

static struct CUmod_st *module_new_locked(struct CUctx_st *context, const struct sim_names *names,
					  struct CUlib_st *library)
{
	struct CUmod_st *module = calloc(1, sizeof(*module));

	module->context = context;
	module->library = library;
	module->entries = copy_names(names);
	module->next = modules;
	modules = module;
	sim_register_locked(module, SIM_MODULE);
	return module;
}

static void module_free_locked(struct CUmod_st *module)
{
	struct CUmod_st **link = &modules;

	while (*link != module)
		link = &(*link)->next;
	*link = module->next;
	while (module->functions) {
		struct CUfunc_st *function = module->functions;

		module->functions = function->next;
		sim_forget_locked(function);
		free(function);
	}
	sim_forget_locked(module);
	sim_names_free(&module->entries);
	free(module);
}

void sim_module_free_context_locked(struct CUctx_st *context)
{
	for (struct CUmod_st *module = modules, *next; module; module = next) {
		next = module->next;
		if (module->context == context)
			module_free_locked(module);
	}
}

void sim_module_free_library_locked(const struct CUlib_st *library)
{
	for (struct CUmod_st *module = modules, *next; module; module = next) {
		next = module->next;
		if (module->library == library)
			module_free_locked(module);
	}
}

struct CUmod_st *sim_module_of_library_locked(struct CUctx_st *context, struct CUlib_st *library)
{
	struct CUmod_st *module = modules;

	while (module && (module->library != library || module->context != context))
		module = module->next;
	return module ? module : module_new_locked(context, &library->entries, library);
}

static bool has_entry(const struct sim_names *names, const char *name)
{
	for (unsigned int i = 0; i < names->count; i++) {
		if (strcmp(names->names[i], name) == 0)
			return true;
	}
	return false;
}

static CUresult module_function_locked(struct CUmod_st *module, const char *name,
				       struct CUfunc_st **function)
{
	const struct sim_kernel *kernel =
		has_entry(&module->entries, name) ? sim_kernel_find(name) : NULL;
	struct CUfunc_st *found = module->functions;

	if (!kernel)
		return CUDA_ERROR_NOT_FOUND;
	while (found && found->kernel != kernel)
		found = found->next;
	if (!found) {
		found = calloc(1, sizeof(*found));
		found->module = module;
		found->kernel = kernel;
		found->dynamic_shared_bytes = (int)SIM_KIB(48);
		found->carveout = -1;
		found->block[0] = found->block[1] = found->block[2] = 1;
		found->next = module->functions;
		module->functions = found;
		sim_register_locked(found, SIM_FUNCTION);
	}
	*function = found;
	return CUDA_SUCCESS;
}

CUresult sim_function_locked(CUfunction handle, struct CUctx_st *context,
			     struct CUfunc_st **function)
{
	struct CUkern_st *kernel = (struct CUkern_st *)(void *)handle;

	if (sim_is_locked(handle, SIM_FUNCTION)) {
		*function = handle;
		return CUDA_SUCCESS;
	}
	if (!sim_is_locked(kernel, SIM_KERNEL))
		return CUDA_ERROR_INVALID_HANDLE;
	return module_function_locked(sim_module_of_library_locked(context, kernel->library),
				      kernel->kernel->name, function);
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				CUjit_option *options, void **optionValues)
{
	struct CUctx_st *context;
	struct sim_names names;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!module || !image || (numOptions > 0 && (!options || !optionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_names_read(image, &names);
	if (result == CUDA_SUCCESS) {
		sim_lock();
		*module = module_new_locked(context, &names, NULL);
		sim_unlock();
	}
	sim_names_free(&names);
	return result;
}

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image)
{
	return sim_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return sim_cuModuleLoadDataEx(module, fatCubin, 0, NULL, NULL);
}

CUresult sim_cuModuleLoad(CUmodule *module, const char *fname)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);
	char *text;

	if (result != CUDA_SUCCESS)
		return result;
	if (!module || !fname)
		return CUDA_ERROR_INVALID_VALUE;
	text = sim_read_file(fname);
	if (!text)
		return CUDA_ERROR_FILE_NOT_FOUND;
	result = sim_cuModuleLoadData(module, text);
	free(text);
	return result;
}

CUresult sim_cuModuleUnload(CUmodule hmod)
{
	CUresult result;

	sim_lock();
	result = sim_capture_check_unsafe_locked();
	if (result != CUDA_SUCCESS) {
		sim_unlock();
		return result;
	}
	if (!sim_is_locked(hmod, SIM_MODULE) || hmod->library) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else {
		sim_context_idle_locked(hmod->context);
		result = atomic_load(&hmod->context->error);
		module_free_locked(hmod);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct CUctx_st *context;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!hfunc || !name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(hmod, SIM_MODULE))
		result = module_function_locked(hmod, name, hfunc);
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

CUresult sim_cuModuleGetFunctionCount(unsigned int *count, CUmodule hmod)
{
	CUresult result = CUDA_SUCCESS;

	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(hmod, SIM_MODULE))
		*count = hmod->entries.count;
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return result;
}

CUresult sim_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
					CUmodule mod)
{
	CUresult result = CUDA_SUCCESS;

	if (!functions)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_is_locked(mod, SIM_MODULE))
		result = CUDA_ERROR_INVALID_HANDLE;
	for (unsigned int i = 0;
	     result == CUDA_SUCCESS && i < numFunctions && i < mod->entries.count; i++)
		result = module_function_locked(mod, mod->entries.names[i], &functions[i]);
	sim_unlock();
	return result;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr_v2 *dptr, size_t *bytes, CUmodule hmod,
				  const char *name)
{
	bool valid;

	(void)dptr;
	(void)bytes;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	valid = sim_is_locked(hmod, SIM_MODULE);
	sim_unlock();
	/* the kernels here have no variables */
	return valid ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = 1; /* eager */
	return CUDA_SUCCESS;
}
