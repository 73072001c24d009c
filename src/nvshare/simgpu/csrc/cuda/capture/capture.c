/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the captures that are going on, and each thread's capture mode. Captures are protected by
 * sim.lock.
 */
#include "capture/capture.h"

#include <stdlib.h>
#include <string.h>

static struct sim_capture *captures;
static __thread CUstreamCaptureMode thread_mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL */

static bool includes_context(const struct sim_capture *capture, const struct CUctx_st *context)
{
	for (size_t i = 0; i < capture->member_count; i++) {
		if (capture->members[i] && capture->members[i]->context == context)
			return true;
	}
	return false;
}

/* Whether the legacy stream of the context would have to wait for the capture. */
static bool blocks_legacy(const struct sim_capture *capture, const struct CUctx_st *context)
{
	for (size_t i = 0; i < capture->member_count; i++) {
		const struct CUstream_st *stream = capture->members[i];

		if (stream && stream->context == context &&
		    !(stream->flags & CU_STREAM_NON_BLOCKING))
			return true;
	}
	return false;
}

CUresult sim_capture_check_event_locked(const struct CUevent_st *event)
{
	struct sim_capture *capture = captures;

	while (capture && capture->id != event->capture_id)
		capture = capture->next;
	if (!capture || capture->invalidated)
		return CUDA_ERROR_INVALID_VALUE;
	capture->invalidated = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

bool sim_capture_blocks_locked(const struct CUctx_st *context)
{
	for (const struct sim_capture *capture = captures; capture; capture = capture->next) {
		if (!capture->invalidated && blocks_legacy(capture, context))
			return true;
	}
	return false;
}

CUresult sim_capture_check_submit_locked(struct CUstream_st *stream)
{
	CUresult result = CUDA_SUCCESS;

	if (stream->capture)
		return stream->capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
						    : CUDA_SUCCESS;
	if (stream != stream->context->legacy)
		return CUDA_SUCCESS;
	for (struct sim_capture *capture = captures; capture; capture = capture->next) {
		if (capture->invalidated || !blocks_legacy(capture, stream->context))
			continue;
		capture->invalidated = true;
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return result;
}

/* Whether the capture forbids this thread the calls that could disturb it. */
static bool forbids(const struct sim_capture *capture)
{
	if (capture->invalidated || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
	    thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (capture->thread == sim_thread_id())
		return true;
	return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_check_unsafe_locked(void)
{
	CUresult result = CUDA_SUCCESS;

	for (struct sim_capture *capture = captures; capture; capture = capture->next) {
		if (!forbids(capture))
			continue;
		capture->invalidated = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

CUresult sim_capture_check_unsafe(void)
{
	CUresult result;

	sim_lock();
	result = sim_capture_check_unsafe_locked();
	sim_unlock();
	return result;
}

CUresult sim_capture_check_sync_locked(struct CUstream_st *stream)
{
	CUresult result;

	if (stream->capture) {
		stream->capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	result = sim_capture_check_submit_locked(stream);
	return result == CUDA_SUCCESS ? sim_capture_check_unsafe_locked() : result;
}

CUresult sim_capture_check_context_sync_locked(struct CUctx_st *context)
{
	CUresult result = CUDA_SUCCESS;

	for (struct sim_capture *capture = captures; capture; capture = capture->next) {
		if (!includes_context(capture, context))
			continue;
		capture->invalidated = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

/* Takes over a set of nodes as what the stream's next node depends on. */
static void set_tail(struct CUstream_st *stream, struct CUgraphNode_st *const *nodes, size_t count)
{
	struct CUgraphNode_st **copy = malloc((count + 1) * sizeof(struct CUgraphNode_st *));

	if (count)
		memcpy(copy, nodes, count * sizeof(struct CUgraphNode_st *));
	free(stream->capture_tail);
	stream->capture_tail = copy;
	stream->capture_tail_count = count;
}

static void extend_tail(struct CUstream_st *stream, struct CUgraphNode_st *const *nodes,
			size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool known = false;

		for (size_t k = 0; k < stream->capture_tail_count; k++)
			known = known || stream->capture_tail[k] == nodes[i];
		if (known)
			continue;
		stream->capture_tail =
			realloc(stream->capture_tail,
				(stream->capture_tail_count + 1) * sizeof(struct CUgraphNode_st *));
		stream->capture_tail[stream->capture_tail_count++] = nodes[i];
	}
}

static struct CUgraphNode_st *append_locked(struct CUstream_st *stream, CUgraphNodeType type,
					    const struct sim_op *op)
{
	struct CUgraphNode_st *node = sim_node_add_locked(stream->capture->graph, type, op);

	node->op.context = stream->context;
	sim_node_depend_locked(node, stream->capture_tail, stream->capture_tail_count);
	set_tail(stream, &node, 1);
	return node;
}

CUresult sim_capture_op_locked(struct CUstream_st *stream, const struct sim_op *op)
{
	if (op->kind == SIM_OP_CALLBACK || op->kind == SIM_OP_PREFETCH) {
		stream->capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	append_locked(stream, sim_node_type_of(op), op);
	return CUDA_SUCCESS;
}

struct CUgraphNode_st *sim_capture_node_locked(struct CUstream_st *stream, const struct sim_op *op)
{
	return append_locked(stream, sim_node_type_of(op), op);
}

CUresult sim_capture_child_locked(struct CUstream_st *stream, const struct CUgraph_st *graph)
{
	struct sim_op op = { .kind = SIM_OP_EMPTY };
	struct CUgraphNode_st *node = append_locked(stream, CU_GRAPH_NODE_TYPE_GRAPH, &op);

	node->child = sim_graph_clone_locked(graph);
	node->child->is_child = true;
	return CUDA_SUCCESS;
}

CUresult sim_capture_event_record_locked(struct CUstream_st *stream, struct CUevent_st *event,
					 unsigned int flags)
{
	if (flags & CU_EVENT_RECORD_EXTERNAL) {
		struct sim_op op = { .kind = SIM_OP_EVENT, .u.event = { event, event->id } };

		return sim_capture_op_locked(stream, &op);
	}
	free(event->nodes);
	event->nodes = malloc((stream->capture_tail_count + 1) * sizeof(struct CUgraphNode_st *));
	if (stream->capture_tail_count)
		memcpy(event->nodes, stream->capture_tail,
		       stream->capture_tail_count * sizeof(struct CUgraphNode_st *));
	event->node_count = stream->capture_tail_count;
	event->capture_id = stream->capture->id;
	return CUDA_SUCCESS;
}

static struct sim_capture *capture_of(const struct CUevent_st *event)
{
	struct sim_capture *capture = captures;

	while (capture && capture->id != event->capture_id)
		capture = capture->next;
	return capture;
}

static void join(struct CUstream_st *stream, struct sim_capture *capture)
{
	capture->members = realloc(capture->members,
				   (capture->member_count + 1) * sizeof(struct CUstream_st *));
	capture->members[capture->member_count++] = stream;
	stream->capture = capture;
	set_tail(stream, NULL, 0);
}

CUresult sim_capture_event_wait_locked(struct CUstream_st *stream, struct CUevent_st *event,
				       unsigned int flags)
{
	struct sim_capture *capture = capture_of(event);

	if (flags & CU_EVENT_WAIT_EXTERNAL) {
		struct sim_op op = { .kind = SIM_OP_EVENT_WAIT, .u.event = { event, event->id } };

		return stream->capture ? sim_capture_op_locked(stream, &op)
				       : CUDA_ERROR_ILLEGAL_STATE;
	}
	if (event->capture_id == 0) {
		if (!event->fence)
			return CUDA_SUCCESS;
		stream->capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (!capture)
		return CUDA_ERROR_INVALID_VALUE;
	if (capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture && stream->capture != capture) {
		stream->capture->invalidated = true;
		capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (stream == stream->context->legacy) {
		capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!stream->capture)
		join(stream, capture);
	extend_tail(stream, event->nodes, event->node_count);
	return CUDA_SUCCESS;
}

static void leave(struct CUstream_st *stream)
{
	stream->capture = NULL;
	free(stream->capture_tail);
	stream->capture_tail = NULL;
	stream->capture_tail_count = 0;
}

void sim_capture_leave_locked(struct CUstream_st *stream)
{
	struct sim_capture *capture = stream->capture;

	if (!capture)
		return;
	capture->invalidated = true;
	for (size_t i = 0; i < capture->member_count; i++) {
		if (capture->members[i] == stream)
			capture->members[i] = NULL;
	}
	if (!capture->members[0])
		sim_capture_end_locked(capture, true);
	leave(stream);
}

void sim_capture_end_locked(struct sim_capture *capture, bool discard)
{
	struct sim_capture **link = &captures;

	for (size_t i = 0; i < capture->member_count; i++) {
		if (capture->members[i])
			leave(capture->members[i]);
	}
	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	if (discard && capture->owns_graph)
		sim_graph_free_locked(capture->graph);
	free(capture->members);
	free(capture);
}

struct sim_capture *sim_capture_begin_locked(struct CUstream_st *stream, CUstreamCaptureMode mode,
					     struct CUgraph_st *graph)
{
	struct sim_capture *capture = calloc(1, sizeof(*capture));

	capture->id = ++sim.last_id;
	capture->mode = mode;
	capture->thread = sim_thread_id();
	capture->owns_graph = !graph;
	capture->graph = graph ? graph : sim_graph_new_locked(stream->context);
	capture->first_node_id = sim.last_id + 1;
	capture->next = captures;
	captures = capture;
	join(stream, capture);
	return capture;
}

void sim_capture_set_tail_locked(struct CUstream_st *stream, struct CUgraphNode_st *const *nodes,
				 size_t count, bool replace)
{
	if (replace)
		set_tail(stream, nodes, count);
	else
		extend_tail(stream, nodes, count);
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = thread_mode;

	if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
	    *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
