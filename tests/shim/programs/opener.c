/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener HOW PLUGIN ROUTE... opens the plugin and prints for each route the file name of the object
 * that it leads to, or "none". HOW is one of the letters d (RTLD_DEEPBIND) and m (dlmopen), or
 * none, then one of n (RTLD_NOW) and l (RTLD_LAZY), and f when the driver is opened first.
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
	reach = dlsym(plugin, "reach");
	for (int i = 3; i < argc; i++) {
		Dl_info info = { .dli_fname = "none" };
		void *found = reach(argv[i]);

		/* another call that looks names up, as programs do */
		dlsym(plugin, "common");
		if (found)
			dladdr(found, &info);
		puts(strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1
						  : info.dli_fname);
	}
	return 0;
}
