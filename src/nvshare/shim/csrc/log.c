/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log lines. Owns nothing and locks nothing: a line is put together on the stack and written
 * at once.
 */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#define LINE_BYTES 1024

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
		if (write(STDERR_FILENO, line, end + 1) < 0)
			errno = saved; /* nobody reads stderr: nothing to be done */
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

void nvs_debug(const char *format, ...)
{
	va_list arguments;

	if (!nvs_config()->debug)
		return;
	va_start(arguments, format);
	write_line(format, arguments);
	va_end(arguments);
}
