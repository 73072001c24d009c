/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads look for the driver's functions at the same time: late_thread PLUGIN. The first is
 * stopped when the library has found the driver and has not read its symbols yet; meanwhile the
 * plugin is opened with RTLD_DEEPBIND, for which the library changes the driver's symbols. Then the
 * first goes on. Prints the object in which it found a function, and "answered" when the driver has
 * been reached by the hook.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"

static sem_t found, changed;
static __thread int stops;

typedef int (*callback)(struct dl_phdr_info *, size_t, void *);

/* In place of libc's: the library goes through the objects by this. */
int dl_iterate_phdr(callback each, void *data)
{
	static int (*real)(callback, void *);
	int result;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	result = real(each, data);
	if (stops) {
		stops = 0;
		sem_post(&found);
		sem_wait(&changed);
	}
	return result;
}

static void *look_up(void *driver)
{
	stops = 1;
	return dlsym(driver, "cuGetProcAddress");
}

int main(int argc, char **argv)
{
	CUresult (*ask)(const char *, void **, int, cuuint64_t);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *answer = NULL;
	pthread_t thread;
	Dl_info info;

	if (argc < 2 || sem_init(&found, 0, 0) || sem_init(&changed, 0, 0) ||
	    pthread_create(&thread, NULL, look_up, driver))
		return 1;
	sem_wait(&found);
	if (!dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND))
		return 2;
	sem_post(&changed);
	if (pthread_join(thread, (void **)&ask) || !dladdr((void *)ask, &info))
		return 3;
	puts(strrchr(info.dli_fname, '/') + 1);
	/* By the hook, wherever the look-up of the first one has led. */
	*(void **)&ask = dlsym(RTLD_DEFAULT, "cuGetProcAddress");
	if (!ask("cuInit", &answer, 12080, 0) && answer)
		puts("answered");
	return 0;
}
