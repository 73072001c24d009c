/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same command line and the same orders as steps.py, for programs in C and C++: [--memory
 * BYTES] [--steps N | --seconds S |
 * --orders], after one word that says the kind. The program defines the three functions below.
 */
#ifndef NVSHARE_TESTS_ORDERS_H
#define NVSHARE_TESTS_ORDERS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Makes the state, of about so many bytes. */
static void prepare(size_t memory);
/* Does so many steps, and waits for their end. */
static void run_steps(long steps);
/* A number that follows from all bits of the results. */
static uint64_t digest(void);

static inline double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static inline double timed_steps(long steps)
{
	double begin = seconds_now();

	run_steps(steps);
	return seconds_now() - begin;
}

/* FNV-1a by words of 8 bytes; what is left over at the end is not looked at. */
static inline uint64_t hash_words(uint64_t hash, const void *data, size_t size)
{
	const uint64_t *words = (const uint64_t *)data;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		hash = (hash ^ words[i]) * 0x100000001b3;
	return hash;
}

static inline void take_orders(size_t memory)
{
	const char *number;
	char line[256];

	printf("{\"ready\": %d}\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strstr(line, "\"prepare\"")) {
			prepare(memory);
			printf("{}\n");
		} else if (strstr(line, "\"run\"")) {
			number = strstr(line, "\"steps\":");
			printf("{\"seconds\": %.9f}\n",
			       timed_steps(number ? atol(number + strlen("\"steps\":")) : 0));
		} else {
			printf("{\"digest\": \"%016llx\"}\n", (unsigned long long)digest());
		}
		fflush(stdout);
	}
}

static inline int program(int count, char **words)
{
	double seconds = 0, took = 0;
	size_t memory = (size_t)1 << 30;
	long steps = 100, done = 0;

	for (int i = 2; i < count; i++) {
		if (!strcmp(words[i], "--orders")) {
			take_orders(memory);
			return 0;
		}
		if (i + 1 == count)
			break;
		if (!strcmp(words[i], "--memory"))
			memory = strtoull(words[++i], NULL, 10);
		else if (!strcmp(words[i], "--steps"))
			steps = atol(words[++i]);
		else if (!strcmp(words[i], "--seconds"))
			seconds = atof(words[++i]);
	}
	prepare(memory);
	while (!done || (seconds > 0 ? took < seconds : done < steps)) {
		long some = seconds > 0 ? 16 : steps;

		took += timed_steps(some);
		done += some;
	}
	printf("{\"digest\": \"%016llx\", \"steps\": %ld, \"seconds\": %.6f, \"rate\": %.3f}\n",
	       (unsigned long long)digest(), done, took, done / took);
	return 0;
}

#endif
