/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: the operations of a graph in an order that keeps its edges. Protected by
 * sim.lock; the steps are never changed once they were made, an update replaces them.
 */
#pragma once

#include "graph/graph.h"

struct sim_step {
	uint64_t node_id;
	CUgraphNodeType type;
	struct sim_op op;
	bool enabled;
};

struct sim_steps {
	unsigned int references;
	size_t count;
	struct sim_step entries[];
};

struct CUgraphExec_st {
	unsigned int id;
	uint64_t flags;
	struct CUctx_st *context;
	/* a clone: what becomes a child when a capturing stream launches it */
	struct CUgraph_st *graph;
	struct sim_steps *steps;
	struct sim_fence *last; /* launches of one executable graph run one after another */
};

/*
 * The steps of a graph, with those of its children in their places; NULL if the edges form a
 * circle.
 */
struct sim_steps *sim_steps_new_locked(const struct CUgraph_st *graph);
void sim_steps_unref_locked(struct sim_steps *steps);

/* Carry out an operation that is a whole graph, and a node that waits for an event. */
CUresult sim_graph_op_run(const struct sim_op *op);
CUresult sim_event_node_wait(const struct sim_op *op);
void sim_graph_op_free_locked(struct sim_op *op);
