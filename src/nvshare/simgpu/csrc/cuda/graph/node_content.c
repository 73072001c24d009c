/* SPDX-License-Identifier: Apache-2.0 */
/* Checks parameters of nodes and turns them into operations. Owns nothing. */
#include "graph/node_content.h"

#include <string.h>

#include "copy/copy.h"
#include "copy/memset.h"
#include "kernel/launch.h"
#include "kernel/module.h"
#include "stream/memop.h"

/* The context that a node is for: the one that was named, else the current one. */
static CUresult context_of(CUcontext named, struct CUctx_st **context)
{
	bool valid;

	if (!named)
		return sim_current(context);
	sim_lock();
	valid = sim_is_locked(named, SIM_CONTEXT);
	sim_unlock();
	*context = named;
	return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUDA_KERNEL_NODE_PARAMS_v2 sim_kernel_params_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 wide = { 0 };

	memcpy(&wide, params, sizeof(*params));
	return wide;
}

CUresult sim_content_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params,
			    struct sim_node_content *content)
{
	struct sim_launch_request request = { 0 };
	struct CUctx_st *context;
	CUresult result = params ? context_of(params->context, &context) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	request.function = params->function ? params->function : (CUfunction)(void *)params->kernel;
	request.params = params->params;
	request.extra = params->extra;
	sim_lock();
	if (!params->context && sim_is_locked(request.function, SIM_FUNCTION))
		context = request.function->module->context;
	sim_unlock();
	memcpy(request.grid, params->grid, sizeof(request.grid));
	memcpy(request.block, params->block, sizeof(request.block));
	request.shared_bytes = params->shared_bytes;
	content->type = CU_GRAPH_NODE_TYPE_KERNEL;
	return sim_launch_prepare(context, &request, &content->op);
}

CUresult sim_content_copy(const CUDA_MEMCPY3D_v2 *params, CUcontext context,
			  struct sim_node_content *content)
{
	enum sim_home dst, src;
	struct CUctx_st *target;
	CUresult result = params ? context_of(context, &target) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	content->type = CU_GRAPH_NODE_TYPE_MEMCPY;
	content->copy = *params;
	return sim_copy_prepare(target, params, &content->op, &dst, &src);
}

CUresult sim_content_memset(const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext context,
			    struct sim_node_content *content)
{
	struct CUctx_st *target;
	CUresult result = params ? context_of(context, &target) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	if (params->element_bytes != 1 && params->element_bytes != 2 && params->element_bytes != 4)
		return CUDA_ERROR_INVALID_VALUE;
	content->type = CU_GRAPH_NODE_TYPE_MEMSET;
	content->op = (struct sim_op){ .kind = SIM_OP_MEMSET, .context = target };
	content->op.u.memset = (struct sim_memset){
		.address = params->dst,
		.pitch = params->pitch,
		.width = params->width,
		.height = params->height,
		.value = params->value,
		.element_bytes = params->element_bytes,
	};
	return sim_memset_check(&content->op.u.memset);
}

CUresult sim_content_host(const CUDA_HOST_NODE_PARAMS_v1 *params, struct sim_node_content *content)
{
	if (!params || !params->function)
		return CUDA_ERROR_INVALID_VALUE;
	content->type = CU_GRAPH_NODE_TYPE_HOST;
	content->op = (struct sim_op){ .kind = SIM_OP_HOST };
	content->op.u.host.function = params->function;
	content->op.u.host.data = params->data;
	return CUDA_SUCCESS;
}

CUresult sim_content_event(CUevent event, bool record, struct sim_node_content *content)
{
	CUresult result = CUDA_SUCCESS;

	content->type = record ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	content->op = (struct sim_op){ .kind = record ? SIM_OP_EVENT : SIM_OP_EVENT_WAIT };
	sim_lock();
	if (sim_is_locked(event, SIM_EVENT)) {
		content->op.u.event.event = event;
		content->op.u.event.id = event->id;
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	sim_unlock();
	return result;
}

CUresult sim_content_memop(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params,
			   struct sim_node_content *content)
{
	struct CUctx_st *context;
	CUresult result = params ? context_of(params->context, &context) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	if (params->count == 0 || !params->operations || params->flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->count > 1)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sim_memop_prepare(&params->operations[0], &content->op))
		return CUDA_ERROR_INVALID_VALUE;
	content->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	content->op.context = context;
	return CUDA_SUCCESS;
}

CUresult sim_content_any(const CUgraphNodeParams *params, struct sim_node_content *content)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return sim_content_kernel(&params->u.kernel, content);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return sim_content_copy(&params->u.memcpy.copy, params->u.memcpy.context, content);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return sim_content_memset(&params->u.memset.set, params->u.memset.context, content);
	case CU_GRAPH_NODE_TYPE_HOST:
		return sim_content_host(&params->u.host, content);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return sim_content_event(params->u.event.event,
					 params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD, content);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return sim_content_memop(&params->u.mem_op, content);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		content->type = CU_GRAPH_NODE_TYPE_EMPTY;
		content->op = (struct sim_op){ .kind = SIM_OP_EMPTY };
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}
