/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked about the shape of a graph. Graphs are graph.c's; protected by sim.lock. */
#include <string.h>

#include "graph/graph.h"

/* An answer of many items: all of them are counted, as many as there is room for are written. */
struct listing {
	CUgraphNode *nodes;
	CUgraphNode *others; /* the second end of edges */
	size_t room;
	size_t count;
};

static void put(struct listing *listing, CUgraphNode node, CUgraphNode other)
{
	if (listing->nodes && listing->count < listing->room) {
		listing->nodes[listing->count] = node;
		if (listing->others)
			listing->others[listing->count] = other;
	}
	listing->count++;
}

/* Takes the lock if a handle is of a type and there is room for the answer. */
static bool lock_object(const void *object, enum sim_type type, const void *answer)
{
	if (!answer)
		return false;
	sim_lock();
	if (sim_is_locked(object, type))
		return true;
	sim_unlock();
	return false;
}

/*
 * Answers the count and releases the lock. The count is that of all items if the program asked for
 * the count only, else of those that were written; the room that is left is cleared.
 */
static CUresult close_listing(struct listing *listing, size_t *count)
{
	if (listing->nodes && listing->count < listing->room) {
		size_t left = (listing->room - listing->count) * sizeof(CUgraphNode);

		memset(&listing->nodes[listing->count], 0, left);
		if (listing->others)
			memset(&listing->others[listing->count], 0, left);
	}
	*count = listing->nodes && listing->count > listing->room ? listing->room : listing->count;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	struct listing listing;

	if (!lock_object(hGraph, SIM_GRAPH, numNodes))
		return CUDA_ERROR_INVALID_VALUE;
	listing = (struct listing){ .nodes = nodes, .room = *numNodes };
	for (CUgraphNode node = hGraph->first; node; node = node->next)
		put(&listing, node, NULL);
	return close_listing(&listing, numNodes);
}

CUresult sim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	struct listing listing;

	if (!lock_object(hGraph, SIM_GRAPH, numRootNodes))
		return CUDA_ERROR_INVALID_VALUE;
	listing = (struct listing){ .nodes = rootNodes, .room = *numRootNodes };
	for (CUgraphNode node = hGraph->first; node; node = node->next) {
		if (node->before_count == 0)
			put(&listing, node, NULL);
	}
	return close_listing(&listing, numRootNodes);
}

/* All edges here are plain ones. */
static void clear_edge_data(CUgraphEdgeData *data, const size_t *count)
{
	if (data)
		memset(data, 0, *count * sizeof(*data));
}

CUresult sim_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	struct listing listing;

	if (!from != !to || !lock_object(hGraph, SIM_GRAPH, numEdges))
		return CUDA_ERROR_INVALID_VALUE;
	listing = (struct listing){ .nodes = from, .others = to, .room = *numEdges };
	for (CUgraphNode node = hGraph->first; node; node = node->next) {
		for (size_t i = 0; i < node->before_count; i++)
			put(&listing, node->before[i], node);
	}
	return close_listing(&listing, numEdges);
}

CUresult sim_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				CUgraphEdgeData *edgeData, size_t *numEdges)
{
	CUresult result = sim_cuGraphGetEdges(hGraph, from, to, numEdges);

	if (result == CUDA_SUCCESS)
		clear_edge_data(edgeData, numEdges);
	return result;
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
					size_t *numDependencies)
{
	struct listing listing;

	if (!lock_object(hNode, SIM_NODE, numDependencies))
		return CUDA_ERROR_INVALID_VALUE;
	listing = (struct listing){ .nodes = dependencies, .room = *numDependencies };
	for (size_t i = 0; i < hNode->before_count; i++)
		put(&listing, hNode->before[i], NULL);
	return close_listing(&listing, numDependencies);
}

CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
					   CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	CUresult result = sim_cuGraphNodeGetDependencies(hNode, dependencies, numDependencies);

	if (result == CUDA_SUCCESS)
		clear_edge_data(edgeData, numDependencies);
	return result;
}

CUresult sim_cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
					  size_t *numDependentNodes)
{
	struct listing listing;

	if (!lock_object(hNode, SIM_NODE, numDependentNodes))
		return CUDA_ERROR_INVALID_VALUE;
	listing = (struct listing){ .nodes = dependentNodes, .room = *numDependentNodes };
	for (CUgraphNode node = hNode->graph->first; node; node = node->next) {
		for (size_t i = 0; i < node->before_count; i++) {
			if (node->before[i] == hNode)
				put(&listing, node, NULL);
		}
	}
	return close_listing(&listing, numDependentNodes);
}

CUresult sim_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
					     CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	CUresult result =
		sim_cuGraphNodeGetDependentNodes(hNode, dependentNodes, numDependentNodes);

	if (result == CUDA_SUCCESS)
		clear_edge_data(edgeData, numDependentNodes);
	return result;
}

CUresult sim_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	if (!lock_object(hNode, SIM_NODE, type))
		return CUDA_ERROR_INVALID_VALUE;
	*type = hNode->type;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	if (!lock_object(hNode, SIM_NODE, phGraph))
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = hNode->graph;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int *nodeId)
{
	if (!lock_object(hNode, SIM_NODE, nodeId))
		return CUDA_ERROR_INVALID_VALUE;
	*nodeId = hNode->local_id;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *nodeId)
{
	if (!lock_object(hNode, SIM_NODE, nodeId))
		return CUDA_ERROR_INVALID_VALUE;
	*nodeId = hNode->id;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetId(CUgraph hGraph, unsigned int *graphId)
{
	if (!lock_object(hGraph, SIM_GRAPH, graphId))
		return CUDA_ERROR_INVALID_VALUE;
	*graphId = hGraph->id;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
				    CUgraph hClonedGraph)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (phNode && sim_is_locked(hOriginalNode, SIM_NODE) &&
	    sim_is_locked(hClonedGraph, SIM_GRAPH)) {
		CUgraphNode node = hClonedGraph->first;

		while (node && node->origin_id != hOriginalNode->id)
			node = node->next;
		if (node) {
			*phNode = node;
			result = CUDA_SUCCESS;
		}
	}
	sim_unlock();
	return result;
}
