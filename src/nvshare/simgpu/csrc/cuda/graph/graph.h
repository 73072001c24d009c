/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes that are operations, and edges between them. Protected by sim.lock. */
#pragma once

#include "stream/op.h"

struct CUgraphNode_st {
	struct CUgraph_st *graph;
	struct CUgraphNode_st *next; /* in the order in which they were made */
	uint64_t id;		     /* that no other node has or had */
	uint64_t origin_id;	     /* of the node that this one was cloned from */
	unsigned int local_id;
	CUgraphNodeType type;
	struct sim_op op;
	CUDA_MEMCPY3D_v2 copy;		      /* memcpy nodes: as the program would say it */
	CUDA_MEM_ALLOC_NODE_PARAMS *alloc;    /* allocation nodes */
	void *parameters[SIM_MAX_PARAMETERS]; /* kernel nodes: as they were last answered */
	struct CUgraph_st *child;	      /* child graph nodes own it */
	struct CUgraphNode_st **before;	      /* what it depends on */
	size_t before_count;
	bool sorted; /* scratch of the sort */
};

struct CUgraph_st {
	struct CUctx_st *context; /* where it was captured; NULL: by hand */
	struct CUgraphNode_st *first;
	struct CUgraphNode_st **last;
	size_t node_count;
	unsigned int id;
	bool is_child;
};

struct CUgraph_st *sim_graph_new_locked(struct CUctx_st *context);
void sim_graph_free_locked(struct CUgraph_st *graph);
struct CUgraph_st *sim_graph_clone_locked(const struct CUgraph_st *graph);
struct CUgraphNode_st *sim_node_add_locked(struct CUgraph_st *graph, CUgraphNodeType type,
					   const struct sim_op *op);
void sim_node_remove_locked(struct CUgraphNode_st *node);
/* Adds edges; an edge that is there already is not added again. */
void sim_node_depend_locked(struct CUgraphNode_st *node, struct CUgraphNode_st *const *before,
			    size_t count);
/* Removes an edge; false: there is none. */
bool sim_node_independ_locked(struct CUgraphNode_st *node, const struct CUgraphNode_st *before);
CUgraphNodeType sim_node_type_of(const struct sim_op *op);
