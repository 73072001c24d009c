/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls NCCL. use_nccl("CALL PLACE NUMBER SEED") makes or ends the communicator at a place; its
 * answer is the result and what NCCL saw. NUMBER is the rank, the color or the device; the unique
 * id is made of SEED. With -DLOOKED_UP=FILE it opens that one by itself and looks the names up.
 * With -DMAIN it is a program that does what its input says: "open" the driver, "use DEVICE", a
 * call, or "in NUMBER CALL", which is the call in the object that is its argument of that number;
 * "deep" is the same with lazy and deep binding.
 */
#define _GNU_SOURCE
#include "nccl_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 4
#define CONFIG_SIZE 77

#ifdef LOOKED_UP
#define NCCL(symbol) ((__typeof__(&symbol))dlsym(dlopen(LOOKED_UP, RTLD_NOW), #symbol))
#else
#define NCCL(symbol) symbol
#endif

static ncclComm_t comms[16];

static ncclUniqueId id_of(int seed)
{
	ncclUniqueId id;

	for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++)
		id.internal[i] = (char)(seed + i);
	return id;
}

static ncclResult_t call(const char *what, int place, int number, int seed)
{
	ncclUniqueId ids[2] = { id_of(seed), id_of(seed + 1) };
	ncclConfig_t config = { CONFIG_SIZE };
	ncclComm_t *comm = &comms[place], parent = comms[0];
	int both[2] = { 0, 1 }, excluded[2] = { number, seed };

	if (!strcmp(what, "rank"))
		return NCCL(ncclCommInitRank)(comm, RANKS, ids[0], number);
	if (!strcmp(what, "config"))
		return NCCL(ncclCommInitRankConfig)(comm, RANKS, ids[0], number, &config);
	if (!strcmp(what, "scalable"))
		return NCCL(ncclCommInitRankScalable)(comm, RANKS, number, 2, ids, &config);
	if (!strcmp(what, "all"))
		return NCCL(ncclCommInitAll)(comm, 2, number ? both : NULL);
	if (!strcmp(what, "split"))
		return NCCL(ncclCommSplit)(parent, number, 0, comm, &config);
	if (!strcmp(what, "shrink"))
		return NCCL(ncclCommShrink)(parent, excluded, 2, comm, &config, 1);
	if (!strcmp(what, "grow"))
		return NCCL(ncclCommGrow)(parent, RANKS + 1, seed ? ids : NULL, number, comm,
					  &config);
	if (!strcmp(what, "abort"))
		return NCCL(ncclCommAbort)(*comm);
	return NCCL(ncclCommDestroy)(*comm);
}

const char *use_nccl(const char *line);

const char *use_nccl(const char *line)
{
	static char answer[300];
	char what[20];
	int place, number, seed, result;

	if (sscanf(line, "%19s %d %d %d", what, &place, &number, &seed) != 4)
		return "what?";
	result = (int)call(what, place, number, seed);
	snprintf(answer, sizeof(answer), "%d %s", result, NCCL(nccl_saw)());
	return answer;
}

#ifdef MAIN
static int use_device(int ordinal)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*retain)(void **, int) =
		(int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
	int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
	int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(driver, "cuInit");

	return init(0) || retain(&context, ordinal) || set(context);
}

static const char *in_object(char **files, const char *line, int mode)
{
	int number = atoi(line), skipped = 0;
	const char *(*use)(const char *) =
		(const char *(*)(const char *))dlsym(dlopen(files[number], mode), "use_nccl");

	sscanf(line, "%*d %n", &skipped);
	return use ? use(line + skipped) : dlerror();
}

int main(int argc, char **argv)
{
	char line[200];

	(void)argc;
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "open", 4))
			puts(dlopen("libcuda.so.1", RTLD_NOW) ? "0" : dlerror());
		else if (!strncmp(line, "use ", 4))
			printf("%d\n", use_device(atoi(line + 4)));
		else if (!strncmp(line, "in ", 3))
			puts(in_object(argv, line + 3, RTLD_NOW | RTLD_LOCAL));
		else if (!strncmp(line, "deep ", 5))
			puts(in_object(argv, line + 5, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND));
		else
			puts(use_nccl(line));
		fflush(stdout);
	}
	return 0;
}
#endif
