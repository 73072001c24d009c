/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's waits for a word of memory and writes to one. Owns nothing. */
#include "stream/memop.h"

#include <string.h>

#include "memory/range.h"
#include "stream/stream.h"

#define LOOK_EVERY_NS 50000u

static bool holds(uint64_t now, uint64_t wanted, unsigned int bytes, unsigned int flags)
{
	uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;

	switch (flags & 3u) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic: a sequence number may wrap around */
		return bytes == 4 ? (int32_t)((uint32_t)now - (uint32_t)wanted) >= 0
				  : (int64_t)(now - wanted) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return (now & mask) == (wanted & mask);
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & wanted & mask) != 0;
	default:
		return (~(now | wanted) & mask) != 0;
	}
}

/* Reads the word; CUDA_ERROR_ILLEGAL_ADDRESS if it is gone. */
static CUresult look(const struct sim_op *op, uint64_t *value)
{
	CUresult result =
		sim_pin(op->context, op->u.word.address, op->u.word.bytes, SIM_READ, false, false);

	if (result != CUDA_SUCCESS)
		return result;
	if (op->u.word.bytes == 4)
		*value = __atomic_load_n((uint32_t *)sim_reach(op->u.word.address),
					 __ATOMIC_ACQUIRE);
	else
		*value = __atomic_load_n((uint64_t *)sim_reach(op->u.word.address),
					 __ATOMIC_ACQUIRE);
	sim_unpin(op->context, op->u.word.address, op->u.word.bytes);
	return CUDA_SUCCESS;
}

CUresult sim_wait_value_run(const struct sim_op *op)
{
	uint64_t value;
	CUresult result;

	for (;;) {
		result = look(op, &value);
		if (result != CUDA_SUCCESS ||
		    holds(value, op->u.word.value, op->u.word.bytes, op->u.word.flags))
			return result;
		if (atomic_load(&op->context->error) != CUDA_SUCCESS)
			return CUDA_SUCCESS;
		sim_sleep_until_ns(sim_now_ns() + LOOK_EVERY_NS);
	}
}

CUresult sim_write_value_run(const struct sim_op *op)
{
	CUresult result =
		sim_pin(op->context, op->u.word.address, op->u.word.bytes, SIM_WRITE, false, false);

	if (result != CUDA_SUCCESS)
		return result;
	if (op->u.word.bytes == 4)
		__atomic_store_n((uint32_t *)sim_reach(op->u.word.address),
				 (uint32_t)op->u.word.value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)sim_reach(op->u.word.address), op->u.word.value,
				 __ATOMIC_RELEASE);
	sim_unpin(op->context, op->u.word.address, op->u.word.bytes);
	return CUDA_SUCCESS;
}

static CUresult submit(CUstream stream, enum sim_op_kind kind, uint64_t address, uint64_t value,
		       unsigned int bytes, unsigned int flags)
{
	struct sim_op op = { .kind = kind };
	bool known;

	sim_lock();
	known = sim_range_live_locked(address) != NULL;
	sim_unlock();
	if (!known || address % bytes != 0 || flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH))
		return CUDA_ERROR_INVALID_VALUE;
	op.u.word.address = address;
	op.u.word.value = value;
	op.u.word.bytes = bytes;
	op.u.word.flags = flags;
	return sim_submit(stream, &op, NULL);
}

CUresult sim_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value,
				    unsigned int flags)
{
	return submit(stream, SIM_OP_WAIT_VALUE, addr, value, 4, flags);
}

CUresult sim_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value,
				    unsigned int flags)
{
	return submit(stream, SIM_OP_WAIT_VALUE, addr, value, 8, flags);
}

CUresult sim_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value,
				     unsigned int flags)
{
	return submit(stream, SIM_OP_WRITE_VALUE, addr, value, 4, flags);
}

CUresult sim_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value,
				     unsigned int flags)
{
	return submit(stream, SIM_OP_WRITE_VALUE, addr, value, 8, flags);
}

bool sim_memop_prepare(const CUstreamBatchMemOpParams *params, struct sim_op *op)
{
	memset(op, 0, sizeof(*op));
	op->u.word.address = params->word.address;
	op->u.word.value = params->word.value;
	op->u.word.flags = params->word.flags;
	op->u.word.bytes = 4;
	switch (params->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		op->u.word.bytes = 8;
		op->kind = SIM_OP_WAIT_VALUE;
		return true;
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		op->kind = SIM_OP_WAIT_VALUE;
		return true;
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		op->u.word.bytes = 8;
		op->kind = SIM_OP_WRITE_VALUE;
		return true;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		op->kind = SIM_OP_WRITE_VALUE;
		return true;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
	case CU_STREAM_MEM_OP_BARRIER:
		op->kind = SIM_OP_EMPTY;
		return true;
	default:
		return false;
	}
}

CUresult sim_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
				   CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;
	struct sim_op op;

	if (!paramArray || count == 0 || count > 256 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if (!sim_memop_prepare(&paramArray[i], &op))
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++) {
		sim_memop_prepare(&paramArray[i], &op);
		if (op.kind == SIM_OP_EMPTY)
			result = sim_submit(stream, &op, NULL);
		else
			result = submit(stream, op.kind, op.u.word.address, op.u.word.value,
					op.u.word.bytes, op.u.word.flags);
	}
	return result;
}
