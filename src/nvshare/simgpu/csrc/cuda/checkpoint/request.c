/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of a request. It is in the asked process's slot. Whoever asks holds a lock of that
 * slot's second byte in the state's file, which dies with the asker; what it asked is answered all
 * the same, and the next one waits for that.
 */
#define _GNU_SOURCE
#include "checkpoint/request.h"

#include <fcntl.h>
#include <stdio.h>

#include "checkpoint/futex.h"

#define REQUEST_LOCK_BYTE 8192
/* So often it is looked whether the asked process still lives. */
#define LOOK_NS 20000000

/* Locks of this belong to the thread that opened it, not to the whole process. */
static int open_again(int file)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool lock_request(int file, int slot)
{
	struct flock lock = { .l_type = F_WRLCK,
			      .l_whence = SEEK_SET,
			      .l_start = REQUEST_LOCK_BYTE + slot,
			      .l_len = 1 };
	int result;

	do
		result = fcntl(file, F_OFD_SETLKW, &lock);
	while (result < 0 && errno == EINTR);
	return result == 0;
}

/* Waits until nothing is asked of a process; false: it has ended. */
static bool await_answer(const struct sim_state *state, int slot, uint64_t client)
{
	_Atomic uint32_t *turn = &state->shared->processes[slot].request.turn;

	while (sim_state_is_alive(state, slot, client)) {
		uint32_t now = atomic_load(turn);

		if (now % 2 == 0)
			return true;
		sim_futex_wait(turn, now, LOOK_NS);
	}
	return false;
}

struct sim_answer sim_request_ask(const struct sim_state *state, int slot, enum sim_step step,
				  uint32_t timeout_ms)
{
	struct sim_request *request = &state->shared->processes[slot].request;
	uint64_t client = state->shared->processes[slot].client;
	struct sim_answer answer = { CUDA_ERROR_OPERATING_SYSTEM, CU_PROCESS_STATE_RUNNING };
	int file = open_again(state->fd);

	if (file < 0)
		return answer;
	if (lock_request(file, slot) && await_answer(state, slot, client)) {
		request->step = step;
		request->timeout_ms = timeout_ms;
		atomic_fetch_add(&request->turn, 1);
		sim_futex_wake(&request->turn);
		if (await_answer(state, slot, client))
			answer = (struct sim_answer){ request->result, request->state };
	}
	close(file);
	return answer;
}

void sim_request_serve(struct sim_answer (*take)(enum sim_step step, uint32_t timeout_ms))
{
	struct sim_request *request = &sim.state.shared->processes[sim.state.slot].request;

	for (;;) {
		uint32_t turn = atomic_load(&request->turn);

		if (turn % 2 == 0) {
			sim_futex_wait(&request->turn, turn, 0);
		} else {
			struct sim_answer answer = take(request->step, request->timeout_ms);

			request->result = answer.result;
			request->state = (uint32_t)answer.state;
			atomic_fetch_add(&request->turn, 1);
			sim_futex_wake(&request->turn);
		}
	}
}
