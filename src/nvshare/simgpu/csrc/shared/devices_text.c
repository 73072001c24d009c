/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the devices' text; owns nothing. */
#include "devices_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "protocol/size.h"

#define DEFAULT_NAME "NVIDIA Simulated GPU"
#define DEFAULT_CONTEXT_BYTES (256ull << 20)
#define DEFAULT_BUS_BYTES_PER_SECOND 12000000000ull
#define MAX_SIZE_BYTES (1ull << 40)
#define MAX_RATE_MEGABYTES 1000000u

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits at *cursor, at most `limit`; moves *cursor behind them. */
static bool parse_number(const char **cursor, uint64_t limit, uint64_t *value)
{
	const char *at = *cursor;
	uint64_t sum = 0;

	if (!is_digit(*at))
		return false;
	for (; is_digit(*at); at++) {
		sum = sum * 10 + (uint64_t)(*at - '0');
		if (sum > limit)
			return false;
	}
	*cursor = at;
	*value = sum;
	return true;
}

static bool parse_size(const char **cursor, uint64_t *bytes)
{
	size_t length = strcspn(*cursor, "/+@,");

	if (nvs_size_read(*cursor, length, bytes) != NVS_SIZE_FINE)
		return false;
	*cursor += length;
	return *bytes && *bytes <= MAX_SIZE_BYTES;
}

static bool parse_rate(const char **cursor, uint64_t *bytes_per_second)
{
	uint64_t number, unit;

	if (!parse_number(cursor, MAX_RATE_MEGABYTES, &number))
		return false;
	if (strncmp(*cursor, "MB/s", 4) == 0)
		unit = 1000000;
	else if (strncmp(*cursor, "GB/s", 4) == 0)
		unit = 1000000000;
	else
		return false;
	*cursor += 4;
	*bytes_per_second = number * unit;
	return number > 0;
}

/*
 * "4x" in front of an item; a name may begin with a digit too, so only digits right before an x
 * count.
 */
static uint64_t parse_count(const char **cursor)
{
	const char *at = *cursor;
	uint64_t count;

	if (!parse_number(&at, SIM_MAX_DEVICES + 1, &count) || *at != 'x')
		return 1;
	*cursor = at + 1;
	return count;
}

static bool parse_name(const char **cursor, char name[SIM_NAME_BYTES])
{
	size_t length = strcspn(*cursor, ":,");

	if ((*cursor)[length] != ':') {
		strcpy(name, DEFAULT_NAME);
		return true;
	}
	if (length == 0 || length >= SIM_NAME_BYTES)
		return false;
	memcpy(name, *cursor, length);
	name[length] = '\0';
	*cursor += length + 1;
	return true;
}

static bool skip(const char **cursor, char expected)
{
	if (**cursor != expected)
		return false;
	(*cursor)++;
	return true;
}

static bool parse_item(const char **cursor, uint64_t *count, struct sim_device_text *device)
{
	memset(device, 0, sizeof(*device));
	*count = parse_count(cursor);
	if (!parse_name(cursor, device->name) || !parse_size(cursor, &device->total_bytes))
		return false;
	device->context_bytes = DEFAULT_CONTEXT_BYTES;
	device->bus_bytes_per_second = DEFAULT_BUS_BYTES_PER_SECOND;
	if (skip(cursor, '/')) {
		if (!parse_size(cursor, &device->context_bytes))
			return false;
		if (skip(cursor, '+') && !parse_size(cursor, &device->launch_bytes))
			return false;
	}
	if (skip(cursor, '@') && !parse_rate(cursor, &device->bus_bytes_per_second))
		return false;
	return *count > 0;
}

int sim_devices_parse(const char *text, struct sim_device_text devices[SIM_MAX_DEVICES])
{
	const char *cursor = text;
	unsigned int filled = 0;

	for (;;) {
		struct sim_device_text device;
		uint64_t count;

		if (!parse_item(&cursor, &count, &device) || count > SIM_MAX_DEVICES - filled)
			return SIM_DEVICES_NOT_UNDERSTOOD;
		if (device.context_bytes >= device.total_bytes)
			return SIM_DEVICES_CONTEXT_TOO_LARGE;
		while (count-- > 0)
			devices[filled++] = device;
		if (*cursor == '\0')
			return (int)filled;
		if (*cursor++ != ',')
			return SIM_DEVICES_NOT_UNDERSTOOD;
	}
}

void sim_devices_write_uuid(const uint8_t uuid[16], char text[SIM_UUID_TEXT_BYTES])
{
	size_t at = (size_t)snprintf(text, SIM_UUID_TEXT_BYTES, "GPU-");

	for (int i = 0; i < 16; i++) {
		const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";

		at += (size_t)snprintf(text + at, SIM_UUID_TEXT_BYTES - at, "%s%02x", dash,
				       uuid[i]);
	}
}
