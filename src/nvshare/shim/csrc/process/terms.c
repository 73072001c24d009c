/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the terms, which are written once, inside pthread_once, and constant after it. The names of
 * the variables are those of paths.py, and the values are written as terms_texts.py says; tests
 * compare both.
 */
#include "process/terms.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "process/config.h"
#include "process/ends.h"
#include "process/log.h"
#include "process/sizes.h"

#define WEIGHT "NVSHARE_WEIGHT"
#define PRIORITY "NVSHARE_PRIORITY"
#define COMPUTE_LIMIT "NVSHARE_COMPUTE_LIMIT"
#define MEMORY_LIMIT "NVSHARE_MEMORY_LIMIT"
#define MEMORY_REQUEST "NVSHARE_MEMORY_REQUEST"
#define WHEN_FULL "NVSHARE_WHEN_FULL"
#define SLEEP "NVSHARE_SLEEP"
#define CONTAINER "NVSHARE_CONTAINER"

#define LEAST_WEIGHT 10u /* thousandths */
#define MOST_WEIGHT 1000000u
#define MOST_PERCENT 100000u
#define MOST_WHOLE (1ull << 53)

static struct nvs_wire_terms terms;
static bool invalid; /* a limit is set that means nothing */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool begun; /* What the environment gets from now on comes too late. */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * A number with at most three decimals, in thousandths, whatever the program's locale; the rest of
 * the text is left in `text`. `fraction`: it has decimals.
 */
static bool read_number(const char **text, uint64_t *thousandths, bool *fraction)
{
	const char *at = *text;
	uint64_t whole = 0, part = 0, digit = 100;

	if (!is_digit(*at))
		return false;
	for (; is_digit(*at) && whole < MOST_WHOLE / 10; at++)
		whole = whole * 10 + (uint64_t)(*at - '0');
	*fraction = *at == '.';
	if (*fraction && !is_digit(*++at))
		return false;
	for (; *fraction && is_digit(*at) && digit; at++, digit /= 10)
		part += digit * (uint64_t)(*at - '0');
	*thousandths = whole * 1000 + part;
	*text = at;
	return true;
}

static bool read_weight(const char *text, uint32_t *weight)
{
	uint64_t thousandths;
	bool fraction;

	if (!read_number(&text, &thousandths, &fraction) || *text || thousandths < LEAST_WEIGHT ||
	    thousandths > MOST_WEIGHT)
		return false;
	*weight = (uint32_t)thousandths;
	return true;
}

/* Of a hundred, in thousandths of all. */
static bool read_percent(const char *text, uint32_t *share)
{
	uint64_t thousandths;
	bool fraction;

	if (!read_number(&text, &thousandths, &fraction))
		return false;
	if (*text == '%')
		text++;
	if (*text || thousandths < 100 || thousandths > MOST_PERCENT)
		return false;
	*share = (uint32_t)(thousandths / 100);
	return true;
}

/* One of `count` names: its number, from 1. */
static bool read_choice(const char *text, const char *const names[], uint32_t count,
			uint32_t *number)
{
	for (uint32_t i = 1; i <= count; i++)
		if (!strcmp(names[i], text)) {
			*number = i;
			return true;
		}
	return false;
}

static bool read_priority(const char *text, uint32_t *priority)
{
	static const char *const names[] = { [NVS_PRIORITY_LOW] = "low",
					     [NVS_PRIORITY_NORMAL] = "normal",
					     [NVS_PRIORITY_HIGH] = "high" };

	return read_choice(text, names, NVS_PRIORITY_HIGH, priority);
}

static bool read_when_full(const char *text, uint32_t *when_full)
{
	static const char *const names[] = { [NVS_WHEN_FULL_WAIT] = "wait",
					     [NVS_WHEN_FULL_REFUSE] = "refuse" };

	return read_choice(text, names, NVS_WHEN_FULL_REFUSE, when_full);
}

static bool read_sleep(const char *text, uint32_t *when)
{
	static const char *const names[] = { [NVS_SLEEP_NEVER] = "never",
					     [NVS_SLEEP_PRESSURE] = "pressure",
					     [NVS_SLEEP_IDLE] = "idle" };

	return read_choice(text, names, NVS_SLEEP_IDLE, when);
}

static bool read_name(const char *text, char name[NVS_WIRE_CONTAINER_BYTES])
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789._-";
	size_t length = strlen(text);

	if (length >= NVS_WIRE_CONTAINER_BYTES || strspn(text, allowed) != length)
		return false;
	memcpy(name, text, length + 1);
	return true;
}

static void say_wrong(const char *name, const char *value, const char *allowed)
{
	nvs_log("%s=%.200s is not %s; it counts as not set", name, value, allowed);
}

/* Whoever set a limit wants none to go past it: nothing runs as if there were none. */
static void read_limits(void)
{
	const char *value = nvs_variable(COMPUTE_LIMIT);
	enum nvs_size read;

	if (value && !read_percent(value, &terms.compute_limit_thousandths)) {
		nvs_log("%s=%.200s is not a percentage from 0.1 to 100, such as 30; this "
			"program's GPU calls fail",
			COMPUTE_LIMIT, value);
		invalid = true;
	}
	value = nvs_variable(MEMORY_LIMIT);
	if (!value)
		return;
	read = nvs_size_of(value, &terms.memory_limit_bytes);
	if (read != NVS_SIZE_FINE || !terms.memory_limit_bytes) {
		nvs_log("%s=%.200s %s; this program's GPU calls fail", MEMORY_LIMIT, value,
			nvs_size_fault(read));
		invalid = true;
	}
}

static void read_request(void)
{
	const char *value = nvs_variable(MEMORY_REQUEST);
	enum nvs_size read =
		value ? nvs_size_of(value, &terms.memory_request_bytes) : NVS_SIZE_FINE;

	if (read != NVS_SIZE_FINE || (value && !terms.memory_request_bytes))
		nvs_log("%s=%.200s %s; it counts as not set", MEMORY_REQUEST, value,
			nvs_size_fault(read));
}

static void read_environment(void)
{
	const char *value;

	atomic_store(&begun, true);
	value = nvs_variable(WEIGHT);
	if (value && !read_weight(value, &terms.weight_thousandths))
		say_wrong(WEIGHT, value, "a number from 0.01 to 1000");
	value = nvs_variable(PRIORITY);
	if (value && !read_priority(value, &terms.priority))
		say_wrong(PRIORITY, value, "one of low, normal, high");
	read_limits();
	read_request();
	value = nvs_variable(WHEN_FULL);
	if (value && !read_when_full(value, &terms.when_full))
		say_wrong(WHEN_FULL, value, "one of wait, refuse");
	value = nvs_variable(SLEEP);
	if (value && !read_sleep(value, &terms.sleep))
		say_wrong(SLEEP, value, "one of never, pressure, idle");
	value = nvs_variable(CONTAINER);
	if (value && !read_name(value, terms.container))
		say_wrong(CONTAINER, value, "1 to 47 letters, digits, dots, - and _");
}

const struct nvs_wire_terms *nvs_terms(void)
{
	NVS_KEEP_ERRNO;

	pthread_once(&once, read_environment);
	return &terms;
}

bool nvs_terms_invalid(void)
{
	return nvs_terms() && invalid;
}

__attribute__((visibility("default"))) int nvs_terms_are_read(void)
{
	return atomic_load(&begun);
}
