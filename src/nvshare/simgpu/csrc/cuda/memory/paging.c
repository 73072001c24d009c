/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of what managed memory costs. The bytes are host memory (memory.c) and never move; this
 * file owns which blocks of them would be on which device. An operation that touches a block which
 * is not on its device waits as long as page faults would need to bring it there, and to send
 * away what has to give way. How much of each process's managed memory is on a device is in the
 * shared state, where other processes take from it; this process then finds that its blocks which
 * were not touched for the longest are gone. What the host touches is not seen, and a block's first
 * touch costs nothing. Protected by sim.lock.
 */
#include "memory/paging.h"

#include <stdlib.h>

#define BLOCK_BYTES SIM_MIB(2)
/* What comes together, before it is looked at what had to go. */
#define STEP_BYTES SIM_MIB(16)

/* The blocks on each device in a ring, the one not touched for the longest behind the head. */
static struct sim_block rings[SIM_MAX_DEVICES];
static uint64_t there[SIM_MAX_DEVICES]; /* the sum of their bytes */

static struct sim_block *ring_of(int device)
{
	struct sim_block *head = &rings[device];

	if (!head->behind)
		head->behind = head->before = head;
	return head;
}

static void take_out(struct sim_block *block)
{
	block->before->behind = block->behind;
	block->behind->before = block->before;
	there[block->device] -= block->bytes;
	block->device = -1;
}

static void put_last(struct sim_block *block, int device)
{
	struct sim_block *head = ring_of(device);

	block->before = head->before;
	block->behind = head;
	head->before->behind = block;
	head->before = block;
	block->device = device;
	block->has_been = true;
	there[device] += block->bytes;
}

/* Takes note of what others have sent away. */
static void catch_up(int device, uint64_t left)
{
	uint64_t before = there[device];

	while (there[device] > left)
		take_out(ring_of(device)->behind);
	if (there[device] != before)
		sim_state_page_out(&sim.state, device, left - there[device]);
}

/* The next managed block in [*at, end), and *at behind it; NULL: there is none. */
static struct sim_block *next_block(uint64_t *at, uint64_t end)
{
	struct sim_range *range;

	while (*at < end && (range = sim_range_next_locked(*at)) != NULL && range->start < end) {
		uint64_t inside = *at > range->start ? *at - range->start : 0;
		uint64_t index = inside / BLOCK_BYTES;

		if (range->kind != SIM_RANGE_MANAGED || inside >= range->bytes) {
			*at = range->start + range->span;
			continue;
		}
		*at = range->start + (index + 1) * BLOCK_BYTES;
		if (*at >= range->start + range->bytes)
			*at = range->start + range->span;
		return &range->blocks[index];
	}
	return NULL;
}

/* Blocks of this process came to the device; returns how much left it. */
static uint64_t come(int device, uint64_t bytes)
{
	uint64_t gone = bytes > 0 ? sim_state_page_in(&sim.state, device, bytes) : 0;

	catch_up(device, sim_state_touch_managed(&sim.state, device, sim_now_ns()));
	return gone;
}

struct sim_paging sim_paging_touch_locked(int device, uint64_t address, uint64_t end)
{
	struct sim_paging paging = { 0, 0 };
	struct sim_block *block;
	uint64_t at = address;
	uint64_t more = 0;

	if (!next_block(&at, end))
		return paging;
	(void)come(device, 0);
	for (at = address; (block = next_block(&at, end)) != NULL;) {
		int from = block->device;

		if (from >= 0)
			take_out(block);
		if (from >= 0 && from != device)
			sim_state_page_out(&sim.state, from, block->bytes);
		if (from != device) {
			paging.in += block->has_been ? block->bytes : 0;
			more += block->bytes;
		}
		put_last(block, device);
		/* those that come push out those that this operation has yet to touch */
		if (more >= STEP_BYTES) {
			paging.out += come(device, more);
			more = 0;
		}
	}
	paging.out += come(device, more);
	return paging;
}

struct sim_paging sim_paging_leave_locked(uint64_t address, uint64_t end, int *device)
{
	struct sim_paging paging = { 0, 0 };
	struct sim_block *block;

	*device = -1;
	for (uint64_t at = address; (block = next_block(&at, end)) != NULL;) {
		int from = block->device;

		if (from < 0)
			continue;
		catch_up(from, sim_state_touch_managed(&sim.state, from, sim_now_ns()));
		if (block->device < 0)
			continue;
		take_out(block);
		sim_state_page_out(&sim.state, from, block->bytes);
		paging.out += block->bytes;
		*device = from;
	}
	return paging;
}

static void end_locked(struct sim_range *range)
{
	int device;

	(void)sim_paging_leave_locked(range->start, range->start + range->bytes, &device);
	free(range->blocks);
}

void sim_paging_begin_locked(struct sim_range *range)
{
	uint64_t count = (range->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;

	range->ends_locked = end_locked;
	range->blocks = calloc(count, sizeof(*range->blocks));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t rest = range->bytes - i * BLOCK_BYTES;

		range->blocks[i].bytes = rest < BLOCK_BYTES ? rest : BLOCK_BYTES;
		range->blocks[i].device = -1;
	}
}

void sim_paging_wait(int device, struct sim_paging paging, enum sim_cargo cargo)
{
	struct sim_transfer in, out;

	if (paging.in == 0 && paging.out == 0)
		return;
	in = sim_transfer_begin(device, SIM_TO_DEVICE, cargo);
	out = sim_transfer_begin(device, SIM_TO_HOST, cargo);
	/* both directions at once: each has its own clock */
	while (paging.in > 0 || paging.out > 0) {
		uint64_t piece_in = paging.in < BLOCK_BYTES ? paging.in : BLOCK_BYTES;
		uint64_t piece_out = paging.out < BLOCK_BYTES ? paging.out : BLOCK_BYTES;

		sim_transfer_more(&in, piece_in);
		sim_transfer_more(&out, piece_out);
		paging.in -= piece_in;
		paging.out -= piece_out;
	}
	sim_transfer_end(&in);
	sim_transfer_end(&out);
}
