/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the driver whose answers do not depend on the device. Every case is one function,
 * and one process, because some end in an error that stays. Each line of output has the case, the
 * call as it is written here, and the answer.
 */
#ifndef SEMANTICS_H
#define SEMANTICS_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nvshare/cuda/abi.h"

#define SIM_DECLARE(symbol, parameters) CUresult symbol parameters;
#define SIM_ENTRY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_QUERY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_EARLY(base, since, variant, symbol, parameters, call) SIM_DECLARE(symbol, parameters)
#define SIM_MISSING(base, since, variant, symbol, parameters) SIM_DECLARE(symbol, parameters)
#include "nvshare/simgpu/csrc/cuda/entry/entries.inc"

#define MIB(n) ((size_t)(n) << 20)
#define SHOW(call) printf("%s: %s = %d\n", now, #call, (int)(call))
#define TRUTH(expression) \
	printf("%s: %s is %s\n", now, #expression, (expression) ? "true" : "false")
#define MUST(call)                                                            \
	do {                                                                  \
		CUresult must = (call);                                       \
		if (must != CUDA_SUCCESS) {                                   \
			printf("%s: %s failed: %d\n", now, #call, (int)must); \
			exit(1);                                              \
		}                                                             \
	} while (0)

extern const char *now; /* the case */
extern CUcontext context;
extern CUmodule module;
extern CUfunction fill, spin;
extern CUstream stream; /* a blocking one */
extern CUstream other;	/* one that does not wait for the legacy stream */

char *read_ptx(void);
/* Initializes, and makes what is above on the primary context of device 0. */
void begin(void);
CUresult launch_fill(CUdeviceptr at, uint32_t value, uint64_t n, CUstream where);
CUresult launch_spin(uint64_t ns, CUstream where);
CUmemAllocationProp_v1 on_device(void);
CUmemAccessDesc_v1 all_rights(void);

/* clang-format off */
#define CASES(X) \
	X(before_init) X(devices) X(contexts) X(resolving) X(after_fork) X(memory) \
	X(registering) X(pointers) X(pools) X(shaped_copies) X(virtual_memory) \
	X(virtual_neighbours) X(no_access_kernel) X(no_access_copy) X(modules) X(launches) \
	X(bad_address) X(misaligned) X(streams) X(events) X(context_event) X(host_functions) X(foreign_stream) \
	X(graphs) X(graph_memory) X(capturing) X(capture_create_vmm) X(capture_beside_global) \
	X(capture_beside_local) X(capture_wrong_thread) X(capture_fork_join) X(capture_unjoined) \
	X(capture_event_inside) X(capture_context_sync) X(capture_context_sync_relaxed) \
	X(capture_stream_sync) X(capture_stream_query) X(capture_other_query) \
	X(capture_other_sync) X(capture_event_query) X(capture_event_query_relaxed) \
	X(capture_event_sync) X(capture_alloc) X(capture_alloc_relaxed) X(capture_free) \
	X(capture_info) X(capture_legacy_launch) X(capture_legacy_launch_relaxed) \
	X(capture_legacy_query) X(capture_legacy_is_capturing) X(capture_sync_copy) \
	X(capture_sync_copy_relaxed) X(capture_async_copy) X(capture_memset) \
	X(capture_wait_outside) X(capture_other_launch) X(capture_create_stream) \
	X(capture_create_event) X(capture_destroy_event) X(capture_load_module) \
	X(capture_host_alloc) X(capture_reserve) X(capture_alloc_async) X(capture_beside_copy) \
	X(capture_beside_copy_relaxed) X(capture_beside_memset) X(capture_beside_launch) \
	X(capture_beside_query) X(capture_beside_query_relaxed) X(capture_beside_context_sync) \
	X(capture_beside_wait) X(capture_beside_record) X(capture_beside_free_async) \
	X(capture_beside_alloc_async) X(capture_callback) X(capture_managed) \
	X(capture_host_register) X(capture_destroy_stream) X(capture_unload_module) \
	X(mapped_attributes) X(allocated_attributes) X(mapped_handles) X(unmapped_before_kernel) \
	X(unmapped_before_memset) X(unmapped_before_copy_out) X(unmapped_before_copy_in) \
	X(unmapped_before_graph) X(unmapped_at_call) X(unmapped_under_kernel) \
	X(no_rights_under_kernel) X(read_only_kernel) X(registering_files)
/* clang-format on */

#define DECLARE_CASE(name) void name(void);
CASES(DECLARE_CASE)

#endif
