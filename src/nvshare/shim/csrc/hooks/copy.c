/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies, fills and moves: with several devices in use each passes the gates of all whose memory it
 * touches, not only that of its stream, since any pointer can be given to any of them. Which device
 * a pointer belongs to, the driver is asked, unless it is one of ours; with one device in use
 * nobody is. No state.
 */
#include <stdbool.h>

#include "driver/driver.h"
#include "gate/device.h"
#include "gate/door.h"
#include "gate/pass.h"
#include "gate/streams.h"
#include "hooks/across.h"
#include "memory/account.h"
#include "memory/swap/allocations.h"

static uint64_t bit(const struct nvs_device *device)
{
	return device ? 1ULL << device->ordinal : 0;
}

/* The operands of a call, as masks of devices. Memory of the host belongs to none. */

static uint64_t of_pointer(CUdeviceptr pointer)
{
	struct nvs_allocation allocation;

	/* Of what is out the driver does not know. */
	return nvs_allocation_find(pointer, &allocation) ? bit(allocation.device)
							 : bit(nvs_device_of_pointer(pointer));
}

static uint64_t of_pointers(const CUdeviceptr *pointers, size_t count)
{
	uint64_t mask = 0;

	for (size_t i = 0; pointers && i < count; i++)
		mask |= of_pointer(pointers[i]);
	return mask;
}

/* Where managed memory is moved to. */
static uint64_t of_ordinal(int ordinal)
{
	return bit(nvs_device_use(ordinal));
}

static uint64_t of_location(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? of_ordinal(location.id) : 0;
}

static uint64_t of_locations(const CUmemLocation *locations, size_t count)
{
	uint64_t mask = 0;

	for (size_t i = 0; locations && i < count; i++)
		mask |= of_location(locations[i]);
	return mask;
}

static uint64_t of_array(CUarray array)
{
	struct nvs_entry entry;

	return nvs_account_find(NVS_ENTRY_ARRAY, (uintptr_t)array, &entry) ? 1ULL << entry.device
									   : 0;
}

static uint64_t of_side(CUmemorytype type, CUdeviceptr pointer, CUarray array)
{
	if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
		return of_pointer(pointer);
	return type == CU_MEMORYTYPE_ARRAY ? of_array(array) : 0;
}

/* A CUDA_MEMCPY2D or 3D of any version. */
#define OF_SHAPE(copy)                                                                     \
	((copy) ? of_side((copy)->src_type, (copy)->src_device, (copy)->src_array) |       \
			  of_side((copy)->dst_type, (copy)->dst_device, (copy)->dst_array) \
		: 0)

static uint64_t of_operand(const CUmemcpy3DOperand_v1 *operand)
{
	return operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? of_array(operand->u.array.array)
							     : of_pointer(operand->u.pointer.ptr);
}

static uint64_t of_batch(const CUDA_MEMCPY3D_BATCH_OP_v1 *operations, size_t count)
{
	uint64_t mask = 0;

	for (size_t i = 0; operations && i < count; i++)
		mask |= of_operand(&operations[i].src) | of_operand(&operations[i].dst);
	return mask;
}

/* Inside another call the driver is not asked, and that one has passed for this one. */
static bool may_touch_others(void)
{
	const struct nvs_mark *mark = nvs_mark_mine;

	return !atomic_load_explicit(&nvs_device_only, memory_order_acquire) &&
	       !(mark && mark->depth);
}

/* With one device, or none, the driver will say what is wrong. */
static uint64_t if_several(uint64_t mask)
{
	return mask & (mask - 1) ? mask : 0;
}

#define ENTER(stream, operands)                                                             \
	__builtin_expect(may_touch_others(), 0)                                             \
		? NVS_GATE_ENTER_FOUND(stream,                                              \
				       if_several((operands) | bit(nvs_device_of(stream)))) \
		: nvs_gate_enter(&nvs_pass, stream)

#define COPY(symbol, parameters, arguments, stream, operands) \
	NVS_PASSING_HOOK(symbol, parameters, arguments, ENTER(stream, operands))

/* `in` makes of the parameters those of the same copy in another stream. */
#define AGAIN(arguments, stream, to, from, async, in)                                     \
	if (__builtin_expect(nvs_result == CUDA_ERROR_INVALID_VALUE, 0)) {                \
		struct nvs_across nvs_across;                                             \
                                                                                          \
		if (nvs_across_begin(&nvs_across, (CUdeviceptr)(to), (CUdeviceptr)(from), \
				     ByteCount, stream, async, &nvs_result)) {            \
			in;                                                               \
			nvs_result = nvs_function arguments;                              \
			nvs_across_end(&nvs_across, &nvs_result);                         \
		}                                                                         \
	}

#define BYTES(symbol, parameters, arguments, stream, operands, to, from)              \
	NVS_PASSING_HOOK_THEN(symbol, parameters, arguments, ENTER(stream, operands), \
			      AGAIN(arguments, stream, to, from, false, ))

#define BYTES_ASYNC(symbol, parameters, arguments, stream, operands, to, from)        \
	NVS_PASSING_HOOK_THEN(symbol, parameters, arguments, ENTER(stream, operands), \
			      AGAIN(arguments, stream, to, from, true, hStream = nvs_across.own))
#include "hooks.def"

/* Copies that name two contexts are from one to the other. With one device in use, all is its. */
static uint64_t of_pair(CUcontext one, CUcontext other)
{
	if (atomic_load_explicit(&nvs_device_only, memory_order_acquire))
		return 0;
	return bit(nvs_device_of_context(one)) | bit(nvs_device_of_context(other));
}

/* `one` and `other` are the contexts of the copy. */
#define PAIR(symbol, one, other, stream, arguments, ...)   \
	NVS_PASSING_HOOK(symbol, (__VA_ARGS__), arguments, \
			 NVS_GATE_ENTER_FOUND(stream, of_pair(one, other)))

PAIR(cuMemcpyPeer, dstContext, srcContext, NULL,
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount)
PAIR(cuMemcpyPeer_ptds, dstContext, srcContext, CU_STREAM_PER_THREAD,
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount)
PAIR(cuMemcpyPeerAsync, dstContext, srcContext, hStream,
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount,
     CUstream hStream)
PAIR(cuMemcpyPeerAsync_ptsz, dstContext, srcContext, NVS_PER_THREAD(hStream),
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream), CUdeviceptr_v2 dstDevice,
     CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount,
     CUstream hStream)
PAIR(cuMemcpy3DPeer, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL, NULL,
     (pCopy), const CUDA_MEMCPY3D_PEER_v1 *pCopy)
PAIR(cuMemcpy3DPeer_ptds, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL,
     CU_STREAM_PER_THREAD, (pCopy), const CUDA_MEMCPY3D_PEER_v1 *pCopy)
PAIR(cuMemcpy3DPeerAsync, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL,
     hStream, (pCopy, hStream), const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream hStream)
PAIR(cuMemcpy3DPeerAsync_ptsz, pCopy ? pCopy->dst_context : NULL, pCopy ? pCopy->src_context : NULL,
     NVS_PER_THREAD(hStream), (pCopy, hStream), const CUDA_MEMCPY3D_PEER_v1 *pCopy,
     CUstream hStream)
