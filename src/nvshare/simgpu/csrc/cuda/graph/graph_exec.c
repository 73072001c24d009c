/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the executable graphs: making, launching and destroying them. Protected by sim.lock. */
#include "graph/graph_exec.h"

#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "graph/graph_memory.h"
#include "stream/stream.h"

static size_t count_steps(const struct CUgraph_st *graph)
{
	size_t count = 0;

	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next)
		count += node->child ? count_steps(node->child) : 1;
	return count;
}

static bool is_ready(const struct CUgraphNode_st *node)
{
	for (size_t i = 0; i < node->before_count; i++) {
		if (!node->before[i]->sorted)
			return false;
	}
	return !node->sorted;
}

static bool append_graph(struct sim_steps *steps, const struct CUgraph_st *graph);

static bool append_node(struct sim_steps *steps, const struct CUgraphNode_st *node)
{
	struct sim_step *step;

	if (node->child)
		return append_graph(steps, node->child);
	step = &steps->entries[steps->count++];
	step->node_id = node->id;
	step->type = node->type;
	step->op = node->op;
	step->enabled = true;
	return true;
}

/* Appends the nodes in an order that keeps the edges; false if there is none. */
static bool append_graph(struct sim_steps *steps, const struct CUgraph_st *graph)
{
	bool progress = true;
	size_t left = 0;

	for (struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		node->sorted = false;
		left++;
	}
	while (left > 0 && progress) {
		progress = false;
		for (struct CUgraphNode_st *node = graph->first; node; node = node->next) {
			if (!is_ready(node))
				continue;
			if (!append_node(steps, node))
				return false;
			node->sorted = true;
			progress = true;
			left--;
		}
	}
	return left == 0;
}

struct sim_steps *sim_steps_new_locked(const struct CUgraph_st *graph)
{
	struct sim_steps *steps =
		calloc(1, sizeof(*steps) + count_steps(graph) * sizeof(struct sim_step));

	steps->references = 1;
	if (append_graph(steps, graph))
		return steps;
	free(steps);
	return NULL;
}

void sim_steps_unref_locked(struct sim_steps *steps)
{
	if (--steps->references == 0)
		free(steps);
}

void sim_graph_op_free_locked(struct sim_op *op)
{
	for (size_t i = 0; i < op->u.graph.steps->count; i++) {
		struct sim_fence *fence = op->u.graph.fences[i];

		if (fence) {
			fence->done = true; /* also when the graph failed before this step */
			fence->time_ns = fence->time_ns ? fence->time_ns : sim_now_ns();
		}
		sim_fence_unref(fence);
	}
	free(op->u.graph.fences);
	sim_steps_unref_locked(op->u.graph.steps);
}

CUresult sim_graph_op_run(const struct sim_op *op)
{
	const struct sim_steps *steps = op->u.graph.steps;

	for (size_t i = 0; i < steps->count; i++) {
		struct sim_fence *fence = op->u.graph.fences[i];
		struct sim_op step = steps->entries[i].op;
		CUresult result;

		if (!step.context)
			step.context = op->context;
		if (!steps->entries[i].enabled)
			continue;
		result = sim.executor->execute(&step);
		if (result != CUDA_SUCCESS)
			return result;
		if (!fence)
			continue;
		sim_lock();
		fence->done = true;
		fence->time_ns = sim_now_ns();
		pthread_cond_broadcast(&sim.changed);
		sim_unlock();
	}
	return CUDA_SUCCESS;
}

static bool is_same_event(const struct sim_op *op)
{
	return sim_is_locked(op->u.event.event, SIM_EVENT) &&
	       op->u.event.event->id == op->u.event.id;
}

CUresult sim_event_node_wait(const struct sim_op *op)
{
	sim_lock();
	if (is_same_event(op))
		sim_wait_locked(op->u.event.event->fence);
	sim_unlock();
	return CUDA_SUCCESS;
}

static struct sim_fence **event_fences_locked(const struct sim_steps *steps)
{
	struct sim_fence **fences = calloc(steps->count + 1, sizeof(struct sim_fence *));

	for (size_t i = 0; i < steps->count; i++) {
		const struct sim_op *op = &steps->entries[i].op;

		if (op->kind != SIM_OP_EVENT || !steps->entries[i].enabled || !is_same_event(op))
			continue;
		fences[i] = sim_fence_new();
		sim_fence_unref(op->u.event.event->fence);
		op->u.event.event->fence = sim_fence_ref(fences[i]);
		op->u.event.event->capture_id = 0;
	}
	return fences;
}

/*
 * A graph may be launched where it was made for: nodes of a context run in that context's streams.
 */
static CUresult launch_locked(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
	struct sim_op op = { .kind = SIM_OP_GRAPH,
			     .waits = &exec->last,
			     .wait_count = exec->last ? 1 : 0 };
	CUresult result = sim_graph_memory_take_locked(exec, stream->context);
	struct sim_fence *fence;

	if (result != CUDA_SUCCESS)
		return result;
	op.u.graph.steps = exec->steps;
	op.u.graph.fences = event_fences_locked(exec->steps);
	exec->steps->references++;
	fence = sim_fence_ref(sim_queue_locked(stream, &op));
	sim_fence_unref(exec->last);
	exec->last = fence;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	struct CUstream_st *stream;
	CUresult result;

	sim_lock();
	result = sim_is_locked(hGraph, SIM_EXEC) ? sim_stream_locked(hStream, &stream)
						 : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_submit_locked(stream);
	if (result == CUDA_SUCCESS && stream->capture)
		result = sim_capture_child_locked(stream, hGraph->graph);
	else if (result == CUDA_SUCCESS)
		result = launch_locked(hGraph, stream);
	sim_unlock();
	return result;
}

CUresult sim_cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	struct sim_op op = { .kind = SIM_OP_EMPTY };
	bool valid;

	sim_lock();
	valid = sim_is_locked(hGraph, SIM_EXEC);
	sim_unlock();
	return valid ? sim_submit(hStream, &op, NULL) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, uint64_t flags)
{
	struct CUctx_st *context = NULL;
	struct sim_steps *steps = NULL;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!out || flags & ~15ull)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_lock();
	if (sim_is_locked(graph, SIM_GRAPH))
		steps = sim_steps_new_locked(graph);
	if (steps) {
		*out = calloc(1, sizeof(**out));
		(*out)->id = (unsigned int)++sim.last_id;
		(*out)->flags = flags;
		(*out)->context = context;
		(*out)->graph = sim_graph_clone_locked(graph);
		(*out)->steps = steps;
		sim_register_locked(*out, SIM_EXEC);
	}
	sim_unlock();
	return steps ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
					 unsigned long long flags)
{
	return instantiate(phGraphExec, hGraph, flags);
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
				   CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize > 0)
		logBuffer[0] = '\0';
	return instantiate(phGraphExec, hGraph, 0);
}

CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
					  CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams,
					  CUstream null_stream)
{
	CUstream stream;
	CUresult result;

	if (!instantiateParams)
		return CUDA_ERROR_INVALID_VALUE;
	result = instantiate(phGraphExec, hGraph, instantiateParams->flags);
	instantiateParams->error_node = NULL;
	instantiateParams->result = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
							   : CUDA_GRAPH_INSTANTIATE_ERROR;
	if (result != CUDA_SUCCESS ||
	    !(instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		return result;
	stream = instantiateParams->upload_stream;
	return sim_cuGraphUpload(*phGraphExec, stream ? stream : null_stream);
}

CUresult sim_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (!sim_is_locked(hGraphExec, SIM_EXEC)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		sim_forget_locked(hGraphExec);
		sim_steps_unref_locked(hGraphExec->steps);
		sim_graph_free_locked(hGraphExec->graph);
		sim_fence_unref(hGraphExec->last);
		free(hGraphExec);
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	CUresult result = CUDA_SUCCESS;

	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(hGraphExec, SIM_EXEC))
		*flags = hGraphExec->flags;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult sim_cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int *graphId)
{
	CUresult result = CUDA_SUCCESS;

	if (!graphId)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_is_locked(hGraphExec, SIM_EXEC))
		*graphId = hGraphExec->id;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}
