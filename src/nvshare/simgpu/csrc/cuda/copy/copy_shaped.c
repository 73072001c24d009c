/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of rows and slices between host memory, device memory and arrays. Owns nothing. */
#include <string.h>

#include "copy/copy.h"
#include "memory/array.h"

/* One side of a description, without the field names of that side. */
struct side {
	CUmemorytype type;
	const void *host;
	uint64_t device;
	CUarray array;
	size_t x_bytes, y, z, pitch, height;
};

static CUresult place_in_array(const struct side *side, const CUDA_MEMCPY3D_v2 *copy,
			       struct sim_place *place)
{
	const struct CUarray_st *array = side->array;
	CUresult result = CUDA_SUCCESS;

	sim_lock();
	if (!sim_is_locked(array, SIM_ARRAY)) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else {
		size_t rows = array->descriptor.height ? array->descriptor.height : 1;
		size_t slices = array->descriptor.depth ? array->descriptor.depth : 1;

		if (side->x_bytes + copy->width_bytes >
			    array->descriptor.width * array->element_bytes ||
		    side->y + copy->height > rows || side->z + copy->depth > slices)
			result = CUDA_ERROR_INVALID_VALUE;
		place->pitch = array->pitch;
		place->slice = array->slice;
		place->address = array->address + side->z * array->slice + side->y * array->pitch +
				 side->x_bytes;
	}
	sim_unlock();
	return result;
}

static CUresult place_in_memory(const struct side *side, const CUDA_MEMCPY3D_v2 *copy,
				struct sim_place *place)
{
	uint64_t base =
		side->type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)side->host : side->device;
	size_t row_bytes = side->x_bytes + copy->width_bytes;
	size_t pitch = side->pitch ? side->pitch : row_bytes;
	size_t rows = side->height ? side->height : side->y + copy->height;

	if (!base || pitch < row_bytes || rows < side->y + copy->height)
		return CUDA_ERROR_INVALID_VALUE;
	place->pitch = pitch;
	place->slice = pitch * rows;
	place->address = base + side->z * place->slice + side->y * pitch + side->x_bytes;
	return CUDA_SUCCESS;
}

static CUresult make_place(const struct side *side, const CUDA_MEMCPY3D_v2 *copy,
			   struct sim_place *place, enum sim_home *home)
{
	CUresult result;

	memset(place, 0, sizeof(*place));
	if (side->type == CU_MEMORYTYPE_ARRAY) {
		*home = SIM_HOME_DEVICE;
		return place_in_array(side, copy, place);
	}
	if (side->type < CU_MEMORYTYPE_HOST || side->type > CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	result = place_in_memory(side, copy, place);
	if (result != CUDA_SUCCESS)
		return result;
	*home = sim_home_of(place->address, copy->width_bytes, NULL);
	place->host = *home == SIM_HOME_PAGEABLE;
	if (*home == SIM_HOME_BEYOND ||
	    (side->type == CU_MEMORYTYPE_DEVICE && *home == SIM_HOME_PAGEABLE))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_copy_prepare(struct CUctx_st *context, const CUDA_MEMCPY3D_v2 *copy, struct sim_op *op,
			  enum sim_home *dst, enum sim_home *src)
{
	struct side from = { copy->src_type,  copy->src_host,	 copy->src_device,
			     copy->src_array, copy->src_x_bytes, copy->src_y,
			     copy->src_z,     copy->src_pitch,	 copy->src_height };
	struct side to = { copy->dst_type,  copy->dst_host,    copy->dst_device,
			   copy->dst_array, copy->dst_x_bytes, copy->dst_y,
			   copy->dst_z,	    copy->dst_pitch,   copy->dst_height };
	CUresult result;

	memset(op, 0, sizeof(*op));
	op->kind = SIM_OP_COPY;
	op->context = context;
	op->u.copy.width = copy->width_bytes;
	op->u.copy.height = copy->height;
	op->u.copy.depth = copy->depth;
	result = make_place(&from, copy, &op->u.copy.src, src);
	if (result == CUDA_SUCCESS)
		result = make_place(&to, copy, &op->u.copy.dst, dst);
	if (result == CUDA_SUCCESS)
		sim_copy_route(&op->u.copy, *dst, *src);
	return result;
}

CUDA_MEMCPY3D_v2 sim_copy_describe(const struct sim_copy *copy)
{
	return (CUDA_MEMCPY3D_v2){
		.src_type = copy->src.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.src_host = copy->src.host ? (const void *)(uintptr_t)copy->src.address : NULL,
		.src_device = copy->src.host ? 0 : copy->src.address,
		.src_pitch = copy->src.pitch,
		.src_height = copy->src.pitch ? copy->src.slice / copy->src.pitch : 0,
		.dst_type = copy->dst.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dst_host = copy->dst.host ? (void *)(uintptr_t)copy->dst.address : NULL,
		.dst_device = copy->dst.host ? 0 : copy->dst.address,
		.dst_pitch = copy->dst.pitch,
		.dst_height = copy->dst.pitch ? copy->dst.slice / copy->dst.pitch : 0,
		.width_bytes = copy->width,
		.height = copy->height,
		.depth = copy->depth,
	};
}

static CUresult copy_shape(const CUDA_MEMCPY3D_v2 *copy, CUstream stream, bool asynchronous)
{
	enum sim_home dst, src;
	struct CUctx_st *context;
	struct sim_op op;
	CUresult result = sim_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!copy)
		return CUDA_ERROR_INVALID_VALUE;
	if (copy->width_bytes == 0 || copy->height == 0 || copy->depth == 0)
		return CUDA_SUCCESS;
	result = sim_copy_prepare(context, copy, &op, &dst, &src);
	return result == CUDA_SUCCESS ? sim_copy_submit(&op, stream, asynchronous, dst, src)
				      : result;
}

static CUresult copy_plane(const CUDA_MEMCPY2D_v2 *copy, CUstream stream, bool asynchronous)
{
	CUDA_MEMCPY3D_v2 shape;

	if (!copy)
		return copy_shape(NULL, stream, asynchronous);
	shape = (CUDA_MEMCPY3D_v2){
		.src_x_bytes = copy->src_x_bytes,
		.src_y = copy->src_y,
		.src_type = copy->src_type,
		.src_host = copy->src_host,
		.src_device = copy->src_device,
		.src_array = copy->src_array,
		.src_pitch = copy->src_pitch,
		.dst_x_bytes = copy->dst_x_bytes,
		.dst_y = copy->dst_y,
		.dst_type = copy->dst_type,
		.dst_host = copy->dst_host,
		.dst_device = copy->dst_device,
		.dst_array = copy->dst_array,
		.dst_pitch = copy->dst_pitch,
		.width_bytes = copy->width_bytes,
		.height = copy->height,
		.depth = 1,
	};
	return copy_shape(&shape, stream, asynchronous);
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D_v2 *pCopy, CUstream null_stream)
{
	return copy_plane(pCopy, null_stream, false);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D_v2 *pCopy, CUstream null_stream)
{
	return copy_plane(pCopy, null_stream, false);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D_v2 *pCopy, CUstream hStream)
{
	return copy_plane(pCopy, hStream, true);
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D_v2 *pCopy, CUstream null_stream)
{
	return copy_shape(pCopy, null_stream, false);
}

CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D_v2 *pCopy, CUstream hStream)
{
	return copy_shape(pCopy, hStream, true);
}

static bool names_contexts(const CUDA_MEMCPY3D_PEER_v1 *copy)
{
	bool valid;

	sim_lock();
	valid = sim_is_locked(copy->src_context, SIM_CONTEXT) &&
		sim_is_locked(copy->dst_context, SIM_CONTEXT);
	sim_unlock();
	return valid;
}

CUresult sim_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream null_stream)
{
	if (pCopy && !names_contexts(pCopy))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy_shape(pCopy, null_stream, false);
}

CUresult sim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream hStream)
{
	if (pCopy && !names_contexts(pCopy))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy_shape(pCopy, hStream, true);
}

/* One side of a copy of a batch; extents are in elements, which are bytes between pointers. */
static struct side side_of(const CUmemcpy3DOperand_v1 *operand)
{
	struct side side = { .type = CU_MEMORYTYPE_UNIFIED };

	if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		side.type = CU_MEMORYTYPE_ARRAY;
		side.array = operand->u.array.array;
		side.x_bytes = operand->u.array.x;
		side.y = operand->u.array.y;
		side.z = operand->u.array.z;
	} else {
		side.device = operand->u.pointer.ptr;
		side.pitch = operand->u.pointer.row_elements;
		side.height = operand->u.pointer.layer_rows;
	}
	return side;
}

static size_t element_bytes_of(const struct side *side)
{
	size_t bytes = 1;

	sim_lock();
	if (side->type == CU_MEMORYTYPE_ARRAY && sim_is_locked(side->array, SIM_ARRAY))
		bytes = side->array->element_bytes;
	sim_unlock();
	return bytes;
}

CUresult sim_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP_v1 *op, unsigned long long flags,
					   CUstream hStream)
{
	struct side src, dst;
	CUDA_MEMCPY3D_v2 shape;
	size_t unit;

	if (!op || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	src = side_of(&op->src);
	dst = side_of(&op->dst);
	unit = element_bytes_of(&src) > element_bytes_of(&dst) ? element_bytes_of(&src)
							       : element_bytes_of(&dst);
	shape = (CUDA_MEMCPY3D_v2){
		.src_x_bytes = src.x_bytes * unit,
		.src_y = src.y,
		.src_z = src.z,
		.src_type = src.type,
		.src_device = src.device,
		.src_array = src.array,
		.src_pitch = src.pitch * unit,
		.src_height = src.height,
		.dst_x_bytes = dst.x_bytes * unit,
		.dst_y = dst.y,
		.dst_z = dst.z,
		.dst_type = dst.type,
		.dst_device = dst.device,
		.dst_array = dst.array,
		.dst_pitch = dst.pitch * unit,
		.dst_height = dst.height,
		.width_bytes = op->width * unit,
		.height = op->height,
		.depth = op->depth,
	};
	return copy_shape(&shape, hStream, true);
}

CUresult sim_cuMemcpy3DBatchAsync_v2(size_t numParams, CUDA_MEMCPY3D_BATCH_OP_v1 *opList,
				     unsigned long long flags, CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;

	if (numParams == 0 || !opList)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < numParams; i++)
		result = sim_cuMemcpy3DWithAttributesAsync(&opList[i], flags, hStream);
	return result;
}

CUresult sim_cuMemcpy3DBatchAsync(size_t numParams, CUDA_MEMCPY3D_BATCH_OP_v1 *opList,
				  size_t *failIdx, unsigned long long flags, CUstream hStream)
{
	CUresult result = sim_cuMemcpy3DBatchAsync_v2(numParams, opList, flags, hStream);

	if (result != CUDA_SUCCESS && failIdx)
		*failIdx = SIZE_MAX;
	return result;
}
