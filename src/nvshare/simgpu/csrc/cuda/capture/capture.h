/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: what is submitted to a capturing stream becomes a node of a graph instead. All of
 * it is protected by sim.lock.
 */
#pragma once

#include "graph/graph.h"

struct sim_capture {
	struct sim_capture *next;
	uint64_t id;
	uint64_t thread; /* that began it */
	CUstreamCaptureMode mode;
	bool invalidated;
	struct CUgraph_st *graph;
	bool owns_graph;	/* the program did not give it */
	uint64_t first_node_id; /* nodes from here on were captured */
	/* the first is the one that it began in; NULL when that is gone */
	struct CUstream_st **members;
	size_t member_count;
};

/*
 * Whether a submission to the stream may go on: a broken capture refuses it, and the legacy stream
 * must not be used beside a capture of a stream that would wait for it.
 */
CUresult sim_capture_check_submit_locked(struct CUstream_st *stream);
/* Makes the operation, or a copy of a graph, a node behind what the stream captured so far. */
CUresult sim_capture_op_locked(struct CUstream_st *stream, const struct sim_op *op);
CUresult sim_capture_child_locked(struct CUstream_st *stream, const struct CUgraph_st *graph);
struct CUgraphNode_st *sim_capture_node_locked(struct CUstream_st *stream, const struct sim_op *op);
/*
 * Whether this thread may make a call that could disturb a capture. If not, the call is refused and
 * the captures concerned are broken.
 */
CUresult sim_capture_check_unsafe_locked(void);
CUresult sim_capture_check_unsafe(void);
/*
 * The same for a query or synchronization of one stream, which is never allowed while that stream
 * captures.
 */
CUresult sim_capture_check_sync_locked(struct CUstream_st *stream);
struct sim_capture *sim_capture_begin_locked(struct CUstream_st *stream, CUstreamCaptureMode mode,
					     struct CUgraph_st *graph);
/* Ends the capture; its graph is the caller's afterwards unless it is to be discarded. */
void sim_capture_end_locked(struct sim_capture *capture, bool discard);
/* What the stream's next node depends on: these nodes instead of, or beside, those of before. */
void sim_capture_set_tail_locked(struct CUstream_st *stream, struct CUgraphNode_st *const *nodes,
				 size_t count, bool replace);
/* A stream that is destroyed while it captures. */
void sim_capture_leave_locked(struct CUstream_st *stream);

/* Waiting for a context is never allowed while one of its streams captures. */
CUresult sim_capture_check_context_sync_locked(struct CUctx_st *context);
/*
 * The answer to a query of an event: if it was last recorded in a capture, an error, and the
 * capture is broken.
 */
CUresult sim_capture_check_event_locked(const struct CUevent_st *event);
/* Whether some capture forbids the use of the context's legacy stream. */
bool sim_capture_blocks_locked(const struct CUctx_st *context);

CUresult sim_capture_event_record_locked(struct CUstream_st *stream, struct CUevent_st *event,
					 unsigned int flags);
CUresult sim_capture_event_wait_locked(struct CUstream_st *stream, struct CUevent_st *event,
				       unsigned int flags);
