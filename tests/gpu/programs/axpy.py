"""Kernels of one's own by what compiles them: triton, numba, cuda_core. Options: steps.py.

Each step adds a part of one vector to the other, and a part of that to the first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy
from steps import Work, main

SOURCE = """
extern "C" __global__ void nvs_axpy(float a, const float *x, float *y, unsigned long long n)
{
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
         i += (unsigned long long)gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}
"""
"""The name is that of a kernel that simulated devices have, so that this runs on them."""
BLOCKS, THREADS = 1024, 256
SIGNS = (-0.3, 0.3)
"""They keep the vectors' lengths within bounds: two steps are nearly a rotation."""


def beginning(memory: int) -> tuple[Any, Any]:
    """The two vectors on the host, together of so many bytes."""
    generator = numpy.random.default_rng(7)
    count = memory // 8
    return generator.standard_normal(count, dtype="float32"), generator.standard_normal(count, dtype="float32")


def triton(_: str, memory: int) -> Work:
    """A Triton kernel on PyTorch's memory."""
    import torch
    from triton_kernel import BLOCK, axpy

    device = "cuda" if torch.cuda.is_available() else "cpu"
    vectors = [torch.from_numpy(vector).to(device) for vector in beginning(memory)]
    grid = ((vectors[0].numel() + BLOCK - 1) // BLOCK,)

    def step() -> None:
        axpy[grid](SIGNS[0], vectors[0], vectors[1], vectors[0].numel(), BLOCK)
        axpy[grid](SIGNS[1], vectors[1], vectors[0], vectors[0].numel(), BLOCK)

    def results() -> Iterator[Any]:
        for vector in vectors:
            yield vector.cpu().numpy()

    return step, torch.cuda.synchronize if device == "cuda" else lambda: None, results


def numba(_: str, memory: int) -> Work:
    """A kernel that numba compiles."""
    from numba import cuda
    from numba_kernel import axpy

    vectors = [cuda.to_device(vector) for vector in beginning(memory)]
    factors = [numpy.float32(sign) for sign in SIGNS]

    def step() -> None:
        axpy[BLOCKS, THREADS](factors[0], vectors[0], vectors[1])
        axpy[BLOCKS, THREADS](factors[1], vectors[1], vectors[0])

    def results() -> Iterator[Any]:
        for vector in vectors:
            yield vector.copy_to_host()

    return step, cuda.synchronize, results


def cuda_core(_: str, memory: int) -> Work:
    """A kernel that NVRTC compiles, and memory of the device's default pool, by cuda.core."""
    from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    kernel = Program(SOURCE, code_type="c++", options=options).compile("ptx").get_kernel("nvs_axpy")
    host = LegacyPinnedMemoryResource()
    vectors = []
    count = memory // 8
    for vector in beginning(memory):
        there, here = device.allocate(vector.nbytes, stream=stream), host.allocate(vector.nbytes)
        ctypes.memmove(int(here.handle), vector.ctypes.data, vector.nbytes)
        here.copy_to(there, stream=stream)
        stream.sync()
        here.close()
        vectors.append(there)
    config = LaunchConfig(grid=BLOCKS, block=THREADS)
    factors = [numpy.float32(sign) for sign in SIGNS]

    def step() -> None:
        launch(stream, config, kernel, factors[0], vectors[0], vectors[1], numpy.uint64(count))
        launch(stream, config, kernel, factors[1], vectors[1], vectors[0], numpy.uint64(count))

    def results() -> Iterator[Any]:
        for there in vectors:
            here = host.allocate(there.size)
            there.copy_to(here, stream=stream)
            stream.sync()
            yield ctypes.string_at(int(here.handle), there.size)
            here.close()

    return step, stream.sync, results


MODULES = {"triton": ["torch", "triton"], "numba": ["numba.cuda"], "cuda_core": ["cuda.core"]}

if __name__ == "__main__":
    main({"triton": triton, "numba": numba, "cuda_core": cuda_core}, MODULES)
