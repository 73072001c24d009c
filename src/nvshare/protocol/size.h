/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How people write a size: 8G and 8GB are 8 * 10^9 bytes, 8Gi and 8GiB 8 * 2^30, as in Kubernetes.
 * Python reads the same in sizes.py; the tests of both read tests/sizes.tsv. Owns nothing, and
 * minds no locale.
 */
#ifndef NVSHARE_SIZE_H
#define NVSHARE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVS_SIZE_LEAST (1ull << 20)
#define NVS_SIZE_MOST (1ull << 50)

/* cdef begin */
enum nvs_size {
	NVS_SIZE_FINE = 0,  /* zero, or from NVS_SIZE_LEAST to NVS_SIZE_MOST */
	NVS_SIZE_NONE = 1,  /* the text is no size */
	NVS_SIZE_SMALL = 2, /* whoever writes so little forgot the unit */
	NVS_SIZE_LARGE = 3
};
/* cdef end */

/* The digits from `*at` on: the number, and at most more than NVS_SIZE_MOST. */
static inline uint64_t nvs_size_digits(const char **at, const char *end)
{
	uint64_t number = 0;

	for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
		if (number <= NVS_SIZE_MOST)
			number = number * 10 + (uint64_t)(**at - '0');
	return number;
}

/* The bytes of k, K, M, G or T, alone or with B, i or iB behind it; 0: it is no unit. */
static inline uint64_t nvs_size_unit(const char *unit, const char *end)
{
	static const char letters[] = "KMGT";
	bool kilo = unit < end && *unit == 'k', binary;
	uint64_t bytes = 1;

	if (unit == end)
		return 1;
	for (const char *letter = letters; *letter; letter++) {
		if (*letter != *unit && !(kilo && *letter == 'K'))
			continue;
		binary = ++unit < end && *unit == 'i' && !kilo;
		unit += binary;
		unit += unit < end && *unit == 'B';
		for (long power = letter - letters; power >= 0; power--)
			bytes *= binary ? 1024 : 1000;
		return unit == end ? bytes : 0;
	}
	return 0;
}

/* The thousandths that one to three digits from `*at` on are; false: they are not so many. */
static inline bool nvs_size_fraction(const char **at, const char *end, uint64_t *thousandths)
{
	const char *digits = *at;

	*thousandths = nvs_size_digits(at, end);
	if (*at == digits || *at - digits > 3)
		return false;
	for (long count = *at - digits; count < 3; count++)
		*thousandths *= 10;
	return true;
}

/* What `length` characters mean. Only what is fine is written to `bytes`. */
static inline enum nvs_size nvs_size_read(const char *text, size_t length, uint64_t *bytes)
{
	const char *at = text, *end = text + length;
	uint64_t whole = nvs_size_digits(&at, end), part = 0, unit, size;
	bool fraction = at < end && *at == '.';

	if (at == text)
		return NVS_SIZE_NONE;
	at += fraction;
	if (fraction && !nvs_size_fraction(&at, end, &part))
		return NVS_SIZE_NONE;
	if (end - at > 1 && *at == ' ')
		at++;
	unit = nvs_size_unit(at, end);
	if (!unit || (fraction && unit == 1))
		return NVS_SIZE_NONE;
	if (whole > NVS_SIZE_MOST / unit)
		return NVS_SIZE_LARGE;
	size = whole * unit + part * unit / 1000;
	if (size > NVS_SIZE_MOST)
		return NVS_SIZE_LARGE;
	if (size && size < NVS_SIZE_LEAST)
		return NVS_SIZE_SMALL;
	*bytes = size;
	return NVS_SIZE_FINE;
}

#endif
