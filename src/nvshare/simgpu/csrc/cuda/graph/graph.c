/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the graphs and their nodes. Protected by sim.lock. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

struct CUgraph_st *sim_graph_new_locked(struct CUctx_st *context)
{
	struct CUgraph_st *graph = calloc(1, sizeof(*graph));

	graph->context = context;
	graph->last = &graph->first;
	graph->id = (unsigned int)++sim.last_id;
	sim_register_locked(graph, SIM_GRAPH);
	return graph;
}

static void free_node(struct CUgraphNode_st *node)
{
	if (node->child)
		sim_graph_free_locked(node->child);
	sim_forget_locked(node);
	free(node->alloc);
	free(node->before);
	free(node);
}

void sim_graph_free_locked(struct CUgraph_st *graph)
{
	while (graph->first) {
		struct CUgraphNode_st *node = graph->first;

		graph->first = node->next;
		free_node(node);
	}
	sim_forget_locked(graph);
	free(graph);
}

struct CUgraphNode_st *sim_node_add_locked(struct CUgraph_st *graph, CUgraphNodeType type,
					   const struct sim_op *op)
{
	struct CUgraphNode_st *node = calloc(1, sizeof(*node));

	node->graph = graph;
	node->id = ++sim.last_id;
	node->origin_id = node->id;
	node->local_id = (unsigned int)graph->node_count++;
	node->type = type;
	node->op = *op;
	*graph->last = node;
	graph->last = &node->next;
	sim_register_locked(node, SIM_NODE);
	return node;
}

static void drop_edge(struct CUgraphNode_st *node, const struct CUgraphNode_st *before)
{
	size_t kept = 0;

	for (size_t i = 0; i < node->before_count; i++) {
		if (node->before[i] != before)
			node->before[kept++] = node->before[i];
	}
	node->before_count = kept;
}

void sim_node_remove_locked(struct CUgraphNode_st *node)
{
	struct CUgraph_st *graph = node->graph;
	struct CUgraphNode_st **link = &graph->first;

	for (struct CUgraphNode_st *other = graph->first; other; other = other->next)
		drop_edge(other, node);
	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	if (graph->last == &node->next)
		graph->last = link;
	free_node(node);
}

static bool has_edge(const struct CUgraphNode_st *node, const struct CUgraphNode_st *before)
{
	for (size_t i = 0; i < node->before_count; i++) {
		if (node->before[i] == before)
			return true;
	}
	return false;
}

void sim_node_depend_locked(struct CUgraphNode_st *node, struct CUgraphNode_st *const *before,
			    size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (has_edge(node, before[i]))
			continue;
		node->before = realloc(node->before,
				       (node->before_count + 1) * sizeof(struct CUgraphNode_st *));
		node->before[node->before_count++] = before[i];
	}
}

bool sim_node_independ_locked(struct CUgraphNode_st *node, const struct CUgraphNode_st *before)
{
	bool found = has_edge(node, before);

	if (found)
		drop_edge(node, before);
	return found;
}

static struct CUgraphNode_st *counterpart(const struct CUgraph_st *clone,
					  const struct CUgraphNode_st *node)
{
	struct CUgraphNode_st *found = clone->first;

	while (found->origin_id != node->id)
		found = found->next;
	return found;
}

static void copy_node(struct CUgraph_st *clone, const struct CUgraphNode_st *node)
{
	struct CUgraphNode_st *copy = sim_node_add_locked(clone, node->type, &node->op);

	copy->origin_id = node->id;
	copy->copy = node->copy;
	if (node->alloc) {
		copy->alloc = malloc(sizeof(*copy->alloc));
		*copy->alloc = *node->alloc;
	}
	if (node->child) {
		copy->child = sim_graph_clone_locked(node->child);
		copy->child->is_child = true;
	}
}

struct CUgraph_st *sim_graph_clone_locked(const struct CUgraph_st *graph)
{
	struct CUgraph_st *clone = sim_graph_new_locked(graph->context);

	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next)
		copy_node(clone, node);
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		struct CUgraphNode_st *copy = counterpart(clone, node);

		for (size_t i = 0; i < node->before_count; i++) {
			struct CUgraphNode_st *before = counterpart(clone, node->before[i]);

			sim_node_depend_locked(copy, &before, 1);
		}
	}
	return clone;
}

CUgraphNodeType sim_node_type_of(const struct sim_op *op)
{
	switch (op->kind) {
	case SIM_OP_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case SIM_OP_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case SIM_OP_MEMSET:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case SIM_OP_HOST:
	case SIM_OP_CALLBACK:
		return CU_GRAPH_NODE_TYPE_HOST;
	case SIM_OP_EVENT:
		return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	case SIM_OP_EVENT_WAIT:
		return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	case SIM_OP_WAIT_VALUE:
	case SIM_OP_WRITE_VALUE:
		return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	case SIM_OP_ALLOC:
		return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	case SIM_OP_FREE:
		return CU_GRAPH_NODE_TYPE_MEM_FREE;
	case SIM_OP_GRAPH:
		return CU_GRAPH_NODE_TYPE_GRAPH;
	case SIM_OP_EMPTY:
	case SIM_OP_PREFETCH:
		break;
	}
	return CU_GRAPH_NODE_TYPE_EMPTY;
}
