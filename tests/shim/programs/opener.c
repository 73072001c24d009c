/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener HOW PLUGIN ROUTE... opens the plugin and prints for each route the file name of the object
 * that it leads to, or "none". HOW is made of letters: d for RTLD_DEEPBIND or m for dlmopen; n for
 * RTLD_NOW or l for RTLD_LAZY; f when the driver is opened first; g when the plugin itself gives
 * its function and no name is looked up, but something opened, as a driver does when it begins.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *common(void);

void *common(void)
{
	return (void *)common;
}

static void *(*given)(const char *);

void give(void *(*function)(const char *));

void give(void *(*function)(const char *))
{
	given = function;
}

int main(int argc, char **argv)
{
	int mode = strchr(argv[1], 'n') ? RTLD_NOW : RTLD_LAZY;
	void *(*reach)(const char *), *plugin;

	if (strchr(argv[1], 'f'))
		dlopen("libcuda.so.1", RTLD_NOW);
	if (strchr(argv[1], 'm'))
		plugin = dlmopen(LM_ID_NEWLM, argv[2], mode);
	else
		plugin = dlopen(argv[2], mode | (strchr(argv[1], 'd') ? RTLD_DEEPBIND : 0));
	if (!plugin) {
		puts(dlerror());
		return 1;
	}
	if (strchr(argv[1], 'g'))
		dlopen(NULL, RTLD_LAZY);
	reach = strchr(argv[1], 'g') ? given : dlsym(plugin, "reach");
	for (int i = 3; i < argc; i++) {
		Dl_info info = { .dli_fname = "none" };
		void *found = reach(argv[i]);

		if (strchr(argv[1], 'm')) /* another call that looks names up, as programs do */
			dlsym(plugin, "common");
		if (found)
			dladdr(found, &info);
		puts(strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1
						  : info.dli_fname);
	}
	return 0;
}
