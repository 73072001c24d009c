/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes one operation, on a stream's thread and without the lock, and adds it to the device's
 * record. Owns nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy/copy.h"
#include "copy/memset.h"
#include "graph/graph_exec.h"
#include "kernel/kernels.h"
#include "stream/memop.h"
#include "memory/pool.h"

static void note(const struct sim_op *op, enum sim_record_kind kind, const char *name,
		 uint64_t start, uint64_t bytes)
{
	int device = op->context->device;
	struct sim_record_entry entry = {
		.client = sim.state.shared->processes[sim.state.slot].client,
		.start_ns = start,
		.end_ns = sim_now_ns(),
		.bytes = bytes,
		.pid = (uint32_t)getpid(),
		.kind = kind,
	};

	memcpy(entry.name, name, strnlen(name, sizeof(entry.name)));
	sim_record_append(sim.records[device], &entry);
}

static CUresult run_kernel(const struct sim_op *op, uint64_t start)
{
	CUresult result = op->u.launch.kernel->run(op->context, op->u.launch.parameters);

	note(op, SIM_RECORD_KERNEL, op->u.launch.kernel->name, start, 0);
	return result;
}

static CUresult run_copy(const struct sim_op *op, uint64_t start)
{
	static const char *const names[] = { [SIM_ROUTE_NO_BUS] = "copy",
					     [SIM_ROUTE_TO_DEVICE] = "copy to device",
					     [SIM_ROUTE_TO_HOST] = "copy to host" };
	CUresult result = sim_copy_run(op->context, &op->u.copy);

	note(op, SIM_RECORD_COPY, names[op->u.copy.route], start,
	     op->u.copy.width * op->u.copy.height * op->u.copy.depth);
	return result;
}

static CUresult run_memset(const struct sim_op *op, uint64_t start)
{
	CUresult result = sim_memset_run(op->context, &op->u.memset);

	note(op, SIM_RECORD_MEMSET, "memset", start, 0);
	return result;
}

static CUresult run_write(const struct sim_op *op, uint64_t start)
{
	CUresult result = sim_write_value_run(op);

	note(op, SIM_RECORD_MEMOP, "write value", start, 0);
	return result;
}

static CUresult run_prefetch(const struct sim_op *op, uint64_t start)
{
	sim_prefetch_run(op);
	note(op, SIM_RECORD_PREFETCH, "prefetch", start, 0);
	return CUDA_SUCCESS;
}

static void call_back(const struct sim_op *op, CUresult result)
{
	sim_in_callback = true;
	op->u.callback.function(op->u.callback.stream, result, op->u.callback.data);
	sim_in_callback = false;
}

static CUresult execute(const struct sim_op *op)
{
	uint64_t start = sim_now_ns();

	switch (op->kind) {
	case SIM_OP_EMPTY:
		return CUDA_SUCCESS;
	case SIM_OP_KERNEL:
		return run_kernel(op, start);
	case SIM_OP_COPY:
		return run_copy(op, start);
	case SIM_OP_MEMSET:
		return run_memset(op, start);
	case SIM_OP_HOST:
		sim_in_callback = true;
		op->u.host.function(op->u.host.data);
		sim_in_callback = false;
		return CUDA_SUCCESS;
	case SIM_OP_CALLBACK:
		call_back(op, CUDA_SUCCESS);
		return CUDA_SUCCESS;
	case SIM_OP_EVENT: /* whoever runs the graph completes its fence */
		return CUDA_SUCCESS;
	case SIM_OP_EVENT_WAIT:
		return sim_event_node_wait(op);
	case SIM_OP_WAIT_VALUE:
		return sim_wait_value_run(op);
	case SIM_OP_WRITE_VALUE:
		return run_write(op, start);
	case SIM_OP_PREFETCH:
		return run_prefetch(op, start);
	case SIM_OP_ALLOC: /* done when the graph was launched */
		return CUDA_SUCCESS;
	case SIM_OP_FREE:
		return sim_free_run(op);
	case SIM_OP_GRAPH:
		return sim_graph_op_run(op);
	}
	return CUDA_ERROR_UNKNOWN;
}

static void fail(const struct sim_op *op, CUresult error)
{
	if (op->kind == SIM_OP_CALLBACK)
		call_back(op, error);
}

static void free_locked(struct sim_op *op)
{
	if (op->kind == SIM_OP_COPY)
		free(op->u.copy.staged);
	if (op->kind == SIM_OP_GRAPH)
		sim_graph_op_free_locked(op);
}

const struct sim_executor sim_executor = {
	.execute = execute,
	.fail = fail,
	.free_locked = free_locked,
};
