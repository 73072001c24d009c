// C++ as nvcc builds it, with the CUDA runtime linked statically: two vectors, each of which gets a part of the other in turns.
// Command line and orders: orders.h.
//
// 	nvcc -O2 -cudart static -o static_cudart static_cudart.cu

#include <vector>

#include "orders.h"

static float *vectors[2];
static size_t count;

static void check(cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
	exit(1);
}

__global__ void axpy(float a, const float *x, float *y, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		y[i] = a * x[i] + y[i];
}

static void prepare(size_t memory)
{
	count = memory / 2 / sizeof(float);
	std::vector<float> values(count);
	uint32_t state = 7;

	for (float *&vector : vectors) {
		for (float &value : values) {
			state = state * 1664525 + 1013904223;
			value = (int32_t)state / 2147483648.0f;
		}
		check(cudaMalloc(&vector, count * sizeof(float)), "cudaMalloc");
		check(cudaMemcpy(vector, values.data(), count * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
	}
	run_steps(2);
}

static void run_steps(long steps)
{
	for (long i = 0; i < steps; i++) {
		axpy<<<1024, 256>>>(-0.3f, vectors[0], vectors[1], count);
		axpy<<<1024, 256>>>(0.3f, vectors[1], vectors[0], count);
		if (i % 16 == 15)
			check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	}
	check(cudaGetLastError(), "launch");
	check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

static uint64_t digest(void)
{
	std::vector<float> values(count);
	uint64_t hash = 0xcbf29ce484222325;

	for (const float *vector : vectors) {
		check(cudaMemcpy(values.data(), vector, count * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
		hash = hash_words(hash, values.data(), count * sizeof(float));
	}
	return hash;
}

int main(int words, char **arguments)
{
	return program(words, arguments);
}
