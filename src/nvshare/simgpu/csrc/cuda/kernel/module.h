/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries and functions. An image is PTX text, of which only the names of the entries
 * are read. Protected by sim.lock.
 */
#pragma once

#include "kernel/kernels.h"

struct sim_names {
	char **names;
	unsigned int count;
};

struct CUmod_st {
	struct CUctx_st *context;
	/* whose module in this context it is; NULL: the program loaded it */
	struct CUlib_st *library;
	struct CUmod_st *next;
	struct sim_names entries;
	struct CUfunc_st *functions;
};

struct CUfunc_st {
	struct CUmod_st *module;
	struct CUfunc_st *next;
	const struct sim_kernel *kernel;
	int dynamic_shared_bytes; /* the most that a launch may ask for */
	int carveout;
	/* of the launches from before CUDA 4 */
	unsigned int block[3];
	unsigned int shared_bytes;
	unsigned char parameters[SIM_PARAMETER_BYTES];
};

struct CUkern_st {
	struct CUlib_st *library;
	struct CUkern_st *next;
	const struct sim_kernel *kernel;
};

struct CUlib_st {
	struct CUlib_st *next;
	struct sim_names entries;
	struct CUkern_st *kernels;
};

/*
 * Reads the entries of an image: CUDA_ERROR_INVALID_IMAGE if it is not PTX, CUDA_ERROR_INVALID_PTX
 * if it has none.
 */
CUresult sim_names_read(const char *image, struct sim_names *names);
void sim_names_free(struct sim_names *names);
/* A whole file as text; NULL if it cannot be read. */
char *sim_read_file(const char *path);

/* Frees the modules of a context, and of a library in every context. */
void sim_module_free_context_locked(struct CUctx_st *context);
void sim_module_free_library_locked(const struct CUlib_st *library);
struct CUmod_st *sim_module_of_library_locked(struct CUctx_st *context, struct CUlib_st *library);

/* The function behind a handle that a launch was given, which may be a kernel of a library. */
CUresult sim_function_locked(CUfunction handle, struct CUctx_st *context,
			     struct CUfunc_st **function);
