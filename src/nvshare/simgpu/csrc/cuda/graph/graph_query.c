/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked about the shape of a graph. Graphs are graph.c's; protected by sim.lock. */
#include <string.h>

#include "graph.h"

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

/*
 * Answers the count: of all if nobody asked for the items, else of those that were written; the
 * room that is left is cleared.
 */
static void close_listing(struct listing *listing, size_t *count)
{
	if (listing->nodes && listing->count < listing->room) {
		size_t left = (listing->room - listing->count) * sizeof(CUgraphNode);

		memset(&listing->nodes[listing->count], 0, left);
		if (listing->others)
			memset(&listing->others[listing->count], 0, left);
	}
	*count = listing->nodes && listing->count > listing->room ? listing->room : listing->count;
}

CUresult sim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	struct listing listing = { .nodes = nodes, .room = numNodes ? *numNodes : 0 };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!numNodes)
		return result;
	sim_lock();
	if (sim_is_locked(hGraph, SIM_GRAPH)) {
		for (CUgraphNode node = hGraph->first; node; node = node->next)
			put(&listing, node, NULL);
		close_listing(&listing, numNodes);
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	struct listing listing = { .nodes = rootNodes, .room = numRootNodes ? *numRootNodes : 0 };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!numRootNodes)
		return result;
	sim_lock();
	if (sim_is_locked(hGraph, SIM_GRAPH)) {
		for (CUgraphNode node = hGraph->first; node; node = node->next) {
			if (node->before_count == 0)
				put(&listing, node, NULL);
		}
		close_listing(&listing, numRootNodes);
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

/* All edges here are plain ones. */
static void clear_edge_data(CUgraphEdgeData *data, const size_t *count)
{
	if (data)
		memset(data, 0, *count * sizeof(*data));
}

CUresult sim_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	struct listing listing = { .nodes = from, .others = to, .room = numEdges ? *numEdges : 0 };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!numEdges || !from != !to)
		return result;
	sim_lock();
	if (sim_is_locked(hGraph, SIM_GRAPH)) {
		for (CUgraphNode node = hGraph->first; node; node = node->next) {
			for (size_t i = 0; i < node->before_count; i++)
				put(&listing, node->before[i], node);
		}
		close_listing(&listing, numEdges);
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
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
	struct listing listing = { .nodes = dependencies,
				   .room = numDependencies ? *numDependencies : 0 };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!numDependencies)
		return result;
	sim_lock();
	if (sim_is_locked(hNode, SIM_NODE)) {
		for (size_t i = 0; i < hNode->before_count; i++)
			put(&listing, hNode->before[i], NULL);
		close_listing(&listing, numDependencies);
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
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
	struct listing listing = { .nodes = dependentNodes,
				   .room = numDependentNodes ? *numDependentNodes : 0 };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!numDependentNodes)
		return result;
	sim_lock();
	if (sim_is_locked(hNode, SIM_NODE)) {
		for (CUgraphNode node = hNode->graph->first; node; node = node->next) {
			for (size_t i = 0; i < node->before_count; i++) {
				if (node->before[i] == hNode)
					put(&listing, node, NULL);
			}
		}
		close_listing(&listing, numDependentNodes);
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
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
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (type && sim_is_locked(hNode, SIM_NODE)) {
		*type = hNode->type;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (phGraph && sim_is_locked(hNode, SIM_NODE)) {
		*phGraph = hNode->graph;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int *nodeId)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (nodeId && sim_is_locked(hNode, SIM_NODE)) {
		*nodeId = hNode->local_id;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *nodeId)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (nodeId && sim_is_locked(hNode, SIM_NODE)) {
		*nodeId = hNode->id;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult sim_cuGraphGetId(CUgraph hGraph, unsigned int *graphId)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (graphId && sim_is_locked(hGraph, SIM_GRAPH)) {
		*graphId = hGraph->id;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
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
