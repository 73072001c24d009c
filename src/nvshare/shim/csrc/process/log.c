/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log lines. Locks nothing: a line is put together on the stack and written at once. Owns
 * the switch for debugging, which config.c sets.
 */
#include "process/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/thread.h"

#define LINE_BYTES 1024

static _Atomic bool debug;

static void write_line(const char *format, va_list arguments)
{
	static const char prefix[] = "nvshare: ";
	const size_t start = sizeof(prefix) - 1;
	char line[LINE_BYTES];
	int saved = errno, length;

	memcpy(line, prefix, start);
	length = vsnprintf(line + start, sizeof(line) - start, format, arguments);
	if (length >= 0) {
		size_t end = start + (size_t)length;

		if (end > sizeof(line) - 1)
			end = sizeof(line) - 1;
		line[end] = '\n';
		nvs_cancel_off();
		if (write(STDERR_FILENO, line, end + 1) < 0)
			errno = saved; /* nobody reads stderr: nothing to be done */
		nvs_cancel_on();
	}
	errno = saved;
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
