/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml_routes ROUTE... prints for each route how many bytes device 0 has, as NVML's function says
 * that the route leads to, or "none". Routes of dlsym: handle, deep (the library is opened with
 * RTLD_DEEPBIND), default, next, dlvsym (a dlsym that is found by dlvsym); and linked, which calls
 * the function by its name: NVML is linked with, or the name is bound at the first call, after
 * `open` has opened it for all (DIRECT). `look` looks up another name, and `use` uses the device;
 * `close` closes NVML and says whether it stays in memory. A path is the same file as a PLUGIN,
 * which asks for what comes after it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NAME "nvmlDeviceGetMemoryInfo"
#define LIBRARY "libnvidia-ml.so.1"

struct memory {
	unsigned long long total, free, used;
};

typedef int (*memory_function)(void *device, struct memory *memory);
typedef void *(*dlsym_function)(void *handle, const char *name);

#ifdef PLUGIN
void *after(void);

void *after(void)
{
	return dlsym(RTLD_NEXT, NAME);
}
#else
#ifdef DIRECT
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);

static void *begin(void)
{
	void *device;

	nvmlInit_v2();
	nvmlDeviceGetHandleByIndex_v2(0, &device);
	return device;
}

/* A call, not the address, which would be looked for when the program begins. */
static int linked(void *device, struct memory *memory)
{
	return nvmlDeviceGetMemoryInfo(device, memory);
}
#else
#define linked NULL

static void *begin(void)
{
	void *library = dlopen(LIBRARY, RTLD_LAZY);
	int (*init)(void) = dlsym(library, "nvmlInit_v2");
	int (*find)(unsigned int, void **) = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	void *device;

	init();
	find(0, &device);
	return device;
}
#endif

static void use_cuda(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*init)(unsigned int) = dlsym(driver, "cuInit");
	int (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");

	init(0);
	retain(&context, 0);
}

static void *after(const char *plugin)
{
	void *(*function)(void) = dlsym(dlopen(plugin, RTLD_NOW | RTLD_GLOBAL), "after");

	return function();
}

/* Looks a function up and closes NVML; whether it stays in memory. */
static bool stays(void)
{
	void *library = dlopen(LIBRARY, RTLD_LAZY);

	dlsym(library, NAME);
	dlclose(library);
	return dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
}

static unsigned long long ask(memory_function function)
{
	struct memory memory = { 0 };

	function(begin(), &memory);
	return memory.total;
}

static memory_function follow(const char *route)
{
	if (!strcmp(route, "linked"))
		return linked;
	if (!strcmp(route, "handle"))
		return dlsym(dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), NAME);
	if (!strcmp(route, "deep"))
		return dlsym(dlopen(LIBRARY, RTLD_NOW | RTLD_DEEPBIND), NAME);
	if (!strcmp(route, "default"))
		return dlsym(RTLD_DEFAULT, NAME);
	if (!strcmp(route, "next"))
		return dlsym(RTLD_NEXT, NAME);
	if (*route == '/')
		return after(route);
	return ((dlsym_function)dlvsym(RTLD_NEXT, "dlsym", VERSION))(
		dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), NAME);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		memory_function found;

		if (!strcmp(argv[i], "open"))
			dlopen(LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
		else if (!strcmp(argv[i], "look"))
			dlsym(RTLD_DEFAULT, "nvmlInit_v2");
		else if (!strcmp(argv[i], "use"))
			use_cuda();
		else if (!strcmp(argv[i], "close"))
			puts(stays() ? "stays" : "goes");
		else if (!(found = follow(argv[i])))
			puts(dlerror() ? "none" : "none, and no error message");
		else
			printf("%llu\n", ask(found));
	}
	return 0;
}
#endif
