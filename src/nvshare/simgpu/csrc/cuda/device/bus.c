/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that things take. Owns the booking of the devices' buses, which all processes share:
 * each direction has a time until which it is taken, and who wants to move a slice takes the time
 * behind it. No lock: that time only grows, by compare and exchange. A process that dies leaves at
 * most one slice booked.
 *
 * The ratios are those of an H200 with PCIe gen5 x16 and driver 580: registered memory 55.4 GB/s in
 * each direction alone, 101.7 GB/s in both at once; pageable memory 18.0 GB/s to the host and
 * 9.9 GB/s to the device; prefetches of managed memory 17.3 and 50. Page faults bring pages in and
 * send others out at half of the bus's rate: Georgios Alexopoulos' thesis on nvshare has 2.5 s for
 * 15.3 GB each way, by faults, on PCIe gen3 x16 with its 12 GB/s. Checkpoints: 8 GiB took 2.8 s
 * more than nothing, and 0.97 s to come back.
 */
#include "device/bus.h"

#include <stdatomic.h>

#include "sim.h"

/* The pieces in which those who share a direction take turns: 0.7 ms at 12 GB/s. */
#define SLICE_BYTES SIM_MIB(8)
/* Of each direction's own rate, while both are busy. */
#define DUPLEX_PERMILLE 918u
/* A sleep may end that much too late; what is left is waited for awake. */
#define SLEEP_SLACK_NS 100000u

static const unsigned int cargo_permille[][2] = {
	[SIM_CARGO_PINNED] = { [SIM_TO_DEVICE] = 1000, [SIM_TO_HOST] = 1000 },
	[SIM_CARGO_PAGEABLE] = { [SIM_TO_DEVICE] = 179, [SIM_TO_HOST] = 325 },
	[SIM_CARGO_PREFETCHED] = { [SIM_TO_DEVICE] = 903, [SIM_TO_HOST] = 312 },
	[SIM_CARGO_PAGES] = { [SIM_TO_DEVICE] = 555, [SIM_TO_HOST] = 555 },
	[SIM_CARGO_CHECKPOINT] = { [SIM_TO_DEVICE] = 160, [SIM_TO_HOST] = 55 },
};

/*
 * What an H200 with driver 580 took. The VMM calls: for 8 GiB in pieces of 2, 64 and 256 MiB, as a
 * time for each call and one for its bytes. cuMemAlloc and cuMemFree: for 1 KiB to 8 GiB; small
 * ones share blocks of 2 MiB, so each bears its part of a block's time. Registering: a memfd that
 * the same process touched.
 */
static const struct {
	uint32_t call_ns;
	uint32_t mebibyte_ns;
	uint32_t block_ns;
} costs[] = {
	[SIM_CALL_RESERVE] = { 4200, 0, 0 },
	[SIM_CALL_CREATE] = { 7000, 10, 0 },
	[SIM_CALL_MAP] = { 600, 0, 0 },
	[SIM_CALL_SET_ACCESS] = { 21000, 30, 0 },
	[SIM_CALL_UNMAP] = { 14000, 0, 0 },
	[SIM_CALL_RELEASE] = { 8000, 200, 0 },
	[SIM_CALL_ALLOC] = { 1300, 43, 40000 },
	[SIM_CALL_FREE] = { 1400, 200, 40000 },
	[SIM_CALL_HOST_ALLOC] = { 0, 342000, 0 },
	[SIM_CALL_HOST_FREE] = { 0, 11000, 0 }, /* not measured: as if unregistered */
	[SIM_CALL_HOST_REGISTER] = { 0, 25000, 0 },
	[SIM_CALL_HOST_UNREGISTER] = { 0, 11000, 0 },
	[SIM_CALL_CHECKPOINT] = { 14000000, 0, 0 },
	[SIM_CALL_CHECKPOINT_CONTEXT] = { 300000000, 0, 0 },
	[SIM_CALL_RESTORE] = { 15000000, 0, 0 },
	[SIM_CALL_RESTORE_CONTEXT] = { 190000000, 0, 0 },
};

struct sim_transfer sim_transfer_begin(int device, enum sim_direction direction,
				       enum sim_cargo cargo)
{
	return (struct sim_transfer){
		.device = device, .direction = direction, .cargo = cargo, .due_ns = sim_now_ns()
	};
}

/* What the bus needs for a slice, from a time on. */
static uint64_t bus_ns(struct sim_shared_device *device, enum sim_direction direction,
		       uint64_t start, uint64_t bytes)
{
	uint64_t rate = device->bus_bytes_per_second;

	if (atomic_load(&device->bus_taken_until_ns[!direction]) > start)
		rate = rate / 1000 * DUPLEX_PERMILLE;
	return bytes * 1000000000ull / rate;
}

/*
 * Takes the bus behind whoever has it, for at most a slice. The time counts from when the last one
 * of the same transfer was through, so that what a sleep oversleeps is not lost. Cargo that is
 * slower than the bus leaves it to others meanwhile, but a device serves one page fault at a time.
 */
static void book(struct sim_transfer *transfer, uint64_t bytes)
{
	struct sim_shared_device *device = sim_state_device(&sim.state, transfer->device);
	_Atomic uint64_t *taken_until = &device->bus_taken_until_ns[transfer->direction];
	uint64_t before = atomic_load(taken_until);
	uint64_t start, ns, due, after;

	do {
		start = before > transfer->due_ns ? before : transfer->due_ns;
		ns = bus_ns(device, transfer->direction, start, bytes);
		due = start + ns * 1000 / cargo_permille[transfer->cargo][transfer->direction];
		after = transfer->cargo == SIM_CARGO_PAGES ? due : start + ns;
	} while (!atomic_compare_exchange_weak(taken_until, &before, after));
	transfer->due_ns = due;
	transfer->unbooked -= bytes;
}

static void wait_until(uint64_t when)
{
	if (when > sim_now_ns())
		sim_sleep_until_ns(when);
}

void sim_transfer_more(struct sim_transfer *transfer, uint64_t bytes)
{
	transfer->unbooked += bytes;
	while (transfer->unbooked >= SLICE_BYTES) {
		book(transfer, SLICE_BYTES);
		wait_until(transfer->due_ns);
	}
}

void sim_transfer_end(struct sim_transfer *transfer)
{
	if (transfer->unbooked > 0)
		book(transfer, transfer->unbooked);
	wait_until(transfer->due_ns);
}

uint64_t sim_call_ns(enum sim_call call, uint64_t count, uint64_t bytes)
{
	uint64_t of_block = bytes < SIM_MIB(2) ? bytes : SIM_MIB(2);

	return count * costs[call].call_ns + (bytes >> 10) * costs[call].mebibyte_ns / 1024 +
	       costs[call].block_ns * of_block / SIM_MIB(2);
}

void sim_call_takes(uint64_t start_ns, uint64_t ns)
{
	uint64_t end = start_ns + ns;

	if (end > sim_now_ns() + SLEEP_SLACK_NS)
		sim_sleep_until_ns(end - SLEEP_SLACK_NS);
	while (sim_now_ns() < end)
		;
}
