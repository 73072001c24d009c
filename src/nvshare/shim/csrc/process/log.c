/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log lines. Locks nothing: a line is put together on the stack and written at once. Owns
 * the switch for debugging, which config.c sets.
 *
 * Who was to read stderr may be gone, or read no more. That must neither end a program whose own
 * line it is not, nor keep the client's thread from hearing the scheduler.
 */
#define _GNU_SOURCE
#include "process/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process/ends.h"
#include "process/thread.h"

#define LINE_BYTES 1024
#define UNREAD_MS 100 /* a line that nobody takes for so long is lost */

static _Atomic bool debug;

static bool is_taken(void)
{
	struct pollfd file = { .fd = STDERR_FILENO, .events = POLLOUT };
	int ready;

	do
		ready = poll(&file, 1, UNREAD_MS);
	while (ready < 0 && errno == EINTR);
	return ready > 0;
}

/* The signal of a write that nobody reads comes to the thread that writes: it is taken back. */
static void write_quietly(const char *line, size_t length)
{
	sigset_t one, before, pending;

	sigemptyset(&one);
	sigaddset(&one, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &one, &before);
	if (write(STDERR_FILENO, line, length) < 0 && errno == EPIPE &&
	    !sigismember(&pending, SIGPIPE))
		sigtimedwait(&one, NULL, &(struct timespec){ 0 });
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void write_line(const char *format, va_list arguments)
{
	static const char prefix[] = "nvshare: ";
	const size_t start = sizeof(prefix) - 1;
	char line[LINE_BYTES];
	NVS_KEEP_ERRNO;
	int length;

	memcpy(line, prefix, start);
	length = vsnprintf(line + start, sizeof(line) - start, format, arguments);
	if (length >= 0) {
		size_t end = start + (size_t)length;

		if (end > sizeof(line) - 1)
			end = sizeof(line) - 1;
		line[end] = '\n';
		nvs_cancel_off();
		if (is_taken())
			write_quietly(line, end + 1);
		nvs_cancel_on();
	}
}

void nvs_log(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line(format, arguments);
	va_end(arguments);
}

void nvs_log_debug(bool wanted)
{
	atomic_store_explicit(&debug, wanted, memory_order_relaxed);
}

void nvs_debug(const char *format, ...)
{
	va_list arguments;

	if (!atomic_load_explicit(&debug, memory_order_relaxed))
		return;
	va_start(arguments, format);
	write_line(format, arguments);
	va_end(arguments);
}
