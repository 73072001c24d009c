/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which a process takes another one's steps. They need no cuInit: a caller without it
 * has the shared state open for them alone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/steps.h"

static struct sim_state own_state;
static bool own_state_is_open;

static void open_own_state(void)
{
	own_state_is_open = sim_state_open(&own_state);
}

/* The state of the driver, or one that is opened at the first call; NULL: it cannot be. */
static struct sim_state *any_state(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (atomic_load(&sim.phase) == SIM_READY)
		return &sim.state;
	pthread_once(&once, open_own_state);
	return own_state_is_open ? &own_state : NULL;
}

/* What a file of /proc/PID has, at most size - 1 bytes; false: there is none. */
static bool read_of(int pid, const char *name, char *text, size_t size)
{
	char path[64];
	FILE *file;
	size_t length;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	length = fread(text, 1, size - 1, file);
	fclose(file);
	text[length] = '\0';
	return true;
}

/* The thread that answers in a process; 0: it has none. */
static int find_thread(int pid)
{
	char path[32], name[300], text[32];
	const struct dirent *entry;
	DIR *folder;
	int found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && found == 0 && (entry = readdir(folder)) != NULL) {
		snprintf(name, sizeof(name), "task/%s/comm", entry->d_name);
		if (read_of(pid, name, text, sizeof(text)) &&
		    strcmp(text, SIM_CHECKPOINT_THREAD "\n") == 0)
			found = atoi(entry->d_name);
	}
	if (folder)
		closedir(folder);
	return found;
}

/* The pid by which a process calls itself; 0: unknown. */
static uint32_t own_pid_of(int pid)
{
	char text[4096];
	const char *line;
	const char *last;

	if (!read_of(pid, "status", text, sizeof(text)))
		return 0;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return 0;
	line++;
	last = line + strcspn(line, "\n");
	while (last[-1] >= '0' && last[-1] <= '9')
		last--;
	return (uint32_t)strtoul(last, NULL, 10);
}

static bool exists(int pid)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return pid > 0 && stat(path, &status) == 0;
}

/* The slot of a process, which the caller may have to be root for. */
static CUresult find_slot(struct sim_state *state, int pid, int *slot)
{
	char path[32];
	struct stat namespace;

	if (!exists(pid))
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (find_thread(pid) == 0)
		return CUDA_ERROR_NOT_INITIALIZED;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	if (stat(path, &namespace) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*slot = sim_state_find(state, (uint64_t)namespace.st_ino, own_pid_of(pid));
	return *slot < 0 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

static struct sim_answer ask(int pid, enum sim_step step, uint32_t timeout_ms)
{
	struct sim_state *state = any_state();
	struct sim_answer answer = { CUDA_ERROR_NO_DEVICE, CU_PROCESS_STATE_RUNNING };
	int slot = -1;

	if (!state)
		return answer;
	answer.result = find_slot(state, pid, &slot);
	if (answer.result != CUDA_SUCCESS)
		return answer;
	return sim_request_ask(state, slot, step, timeout_ms);
}

static bool is_zero(const void *bytes, size_t count)
{
	static const char zeros[64];

	return memcmp(bytes, zeros, count) == 0;
}

CUresult sim_cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
	struct sim_answer answer;

	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	answer = ask(pid, SIM_STEP_NONE, 0);
	if (answer.result == CUDA_SUCCESS)
		*state = answer.state;
	return answer.result;
}

CUresult sim_cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
	int found;

	if (!tid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!exists(pid))
		return CUDA_ERROR_OPERATING_SYSTEM;
	found = find_thread(pid);
	if (found == 0)
		return CUDA_ERROR_NOT_INITIALIZED;
	*tid = found;
	return CUDA_SUCCESS;
}

CUresult sim_cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	if (args && (args->reserved0 || !is_zero(args->reserved1, sizeof(args->reserved1))))
		return CUDA_ERROR_INVALID_VALUE;
	return ask(pid, SIM_STEP_LOCK, args ? args->timeout_ms : 0).result;
}

CUresult sim_cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	if (args && !is_zero(args, sizeof(*args)))
		return CUDA_ERROR_INVALID_VALUE;
	return ask(pid, SIM_STEP_CHECKPOINT, 0).result;
}

CUresult sim_cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	if (args && !is_zero(args, sizeof(*args)))
		return CUDA_ERROR_INVALID_VALUE;
	return ask(pid, SIM_STEP_RESTORE, 0).result;
}

CUresult sim_cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	if (args && !is_zero(args, sizeof(*args)))
		return CUDA_ERROR_INVALID_VALUE;
	return ask(pid, SIM_STEP_UNLOCK, 0).result;
}
