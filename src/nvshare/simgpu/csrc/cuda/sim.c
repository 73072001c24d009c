/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the process-wide state, and the trace of calls. */
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct sim_globals sim = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static pthread_once_t trace_once = PTHREAD_ONCE_INIT;
static int trace_fd = -1;

__thread bool sim_in_callback;

static void open_trace(void)
{
	const char *path = getenv("NVSHARE_SIMGPU_TRACE");

	if (path && *path)
		trace_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

static void trace(const char *symbol)
{
	struct iovec line[2] = { { (char *)symbol, strlen(symbol) }, { (char *)"\n", 1 } };

	pthread_once(&trace_once, open_trace);
	if (trace_fd >= 0)
		(void)!writev(trace_fd, line, 2);
}

CUresult sim_enter_early(const char *symbol)
{
	trace(symbol);
	return CUDA_SUCCESS;
}

CUresult sim_enter(const char *symbol)
{
	trace(symbol);
	if (atomic_load_explicit(&sim.phase, memory_order_acquire) != SIM_READY)
		return CUDA_ERROR_NOT_INITIALIZED;
	return sim_in_callback ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

bool sim_start_thread(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	started = pthread_create(&thread, &attributes, run, argument) == 0;
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

void sim_lock(void)
{
	pthread_mutex_lock(&sim.lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&sim.lock);
}

uint64_t sim_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void sim_sleep_until_ns(uint64_t when)
{
	struct timespec until = { .tv_sec = (time_t)(when / 1000000000ull),
				  .tv_nsec = (long)(when % 1000000000ull) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

int sim_device_count(void)
{
	return (int)sim.state.device_count;
}

bool sim_device_exists(CUdevice device)
{
	return device >= 0 && device < sim_device_count();
}
