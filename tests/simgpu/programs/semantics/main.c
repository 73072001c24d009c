/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `semantics KERNELS.ptx [CASE]`: asks, and prints the answers. On a real GPU its output is what
 * real_answers.txt keeps; on the simulated one a test compares.
 */
#include "semantics.h"

const char *now;
CUcontext context;
CUmodule module;
CUfunction fill, spin;
CUstream stream, other;

static const char *ptx_path;

char *read_ptx(void)
{
	FILE *file = fopen(ptx_path, "r");
	char *text = calloc(1, 1 << 20);

	if (!file || fread(text, 1, (1 << 20) - 1, file) == 0)
		exit(2);
	fclose(file);
	return text;
}

void begin(void)
{
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, read_ptx()));
	MUST(cuModuleGetFunction(&fill, module, "nvs_fill_u32"));
	MUST(cuModuleGetFunction(&spin, module, "nvs_spin"));
	MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
}

CUresult launch_fill(CUdeviceptr at, uint32_t value, uint64_t n, CUstream where)
{
	void *params[] = { &at, &value, &n };

	return cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, where, params, NULL);
}

CUresult launch_spin(uint64_t ns, CUstream where)
{
	void *params[] = { &ns };

	return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, where, params, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define ROW(name) { #name, name },
	CASES(ROW)
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	ptx_path = argc > 1 ? argv[1] : "";
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status;
		pid_t pid;

		if (argc > 2 && strcmp(argv[2], cases[i].name) != 0)
			continue;
		pid = fork();
		if (pid == 0) {
			now = cases[i].name;
			cases[i].run();
			fflush(stdout);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			printf("%s: ended with %#x\n", cases[i].name, (unsigned int)status);
		fflush(stdout);
	}
	return 0;
}
