"""What a driver still answers after a kernel's fault, what then leaves the GPU, and who gets the room.

    PYTHONPATH=src:. python bench/gpu/dead_context.py

Run it from the root of the project, after ``make libs``. It needs one GPU, real or simulated, and no PyTorch. A program
takes memory of each kind, launches a kernel that writes to an address that is not there, and lives on: it makes each
call of STEPS, and after each one NVML says how much memory the GPU has in use. This is done natively and with nvshare.
Then another program needs more than the dead one leaves, once while nobody asks it anything and once while it asks on.
The table is printed, and written to $OUT/dead_context.md where OUT is set.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pynvml  # type: ignore[import-untyped]

from bench.gpu.running.cuda import AccessDesc, AllocationProp
from bench.gpu.running.script import scheduler, show
from nvshare.simgpu import KERNELS_PTX

MIB = 1 << 20
ANSWER_SECONDS = 30.0
"""Longer than any answer of a driver takes; what has none by then waits for ever."""
NOWHERE = 0x10
"""An address at which nothing ever is."""


class Driver:
    """Device 0, whatever it answers: no call here raises for an error."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.context, self.fill = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)
        self.load()

    def call(self, name: str, *arguments: Any) -> int:
        """The CUresult of a call."""
        return int(getattr(self._cuda, name)(*arguments))

    def name(self, result: int) -> str:
        """A CUresult as people write it."""
        text = ctypes.c_char_p()
        self.call("cuGetErrorName", result, ctypes.byref(text))
        return f"{result} {(text.value or b'?').decode().removeprefix('CUDA_ERROR_').removeprefix('CUDA_')}"

    def load(self) -> int:
        """The kernel that writes, in the current context."""
        module = ctypes.c_void_p()
        loaded = self.call("cuModuleLoadData", ctypes.byref(module), KERNELS_PTX.read_bytes() + b"\0")
        return loaded or self.call("cuModuleGetFunction", ctypes.byref(self.fill), module, b"nvs_fill_u32")

    def launch(self, address: int) -> int:
        """One kernel that writes to 256 words there."""
        values = ctypes.c_uint64(address), ctypes.c_uint32(7), ctypes.c_uint64(256)
        parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
        return self.call("cuLaunchKernel", self.fill, 1, 1, 1, 256, 1, 1, 0, None, parameters, None)

    def plain(self, size: int) -> tuple[int, int]:
        """What cuMemAlloc answers, and the address."""
        address = ctypes.c_uint64()
        return self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size)), address.value

    def work(self) -> int:
        """An allocation, a kernel on it, and a wait for it: 0 if the current context works."""
        result, address = self.plain(MIB)
        return result or self.load() or self.launch(address) or self.call("cuCtxSynchronize")


@dataclass(slots=True)
class Mapped:
    """Memory by the virtual memory calls, each of which is a step."""

    driver: Driver
    size: int
    address: ctypes.c_uint64
    handle: ctypes.c_uint64

    def create(self) -> int:
        """cuMemCreate"""
        prop = AllocationProp(1, 0, 1, 0)
        size = ctypes.c_size_t(self.size)
        return self.driver.call("cuMemCreate", ctypes.byref(self.handle), size, ctypes.byref(prop), ctypes.c_uint64(0))

    def map(self) -> int:
        """cuMemAddressReserve, cuMemMap, cuMemSetAccess"""
        call, size, none = self.driver.call, ctypes.c_size_t(self.size), ctypes.c_size_t(0)
        access = AccessDesc(1, 0, 3)
        return (
            call("cuMemAddressReserve", ctypes.byref(self.address), size, none, ctypes.c_uint64(0), ctypes.c_uint64(0))
            or call("cuMemMap", self.address, size, none, self.handle, ctypes.c_uint64(0))
            or call("cuMemSetAccess", self.address, size, ctypes.byref(access), ctypes.c_size_t(1))
        )

    def unmap(self) -> int:
        """cuMemUnmap"""
        return self.driver.call("cuMemUnmap", self.address, ctypes.c_size_t(self.size))

    def release(self) -> int:
        """cuMemRelease"""
        return self.driver.call("cuMemRelease", self.handle)

    def free(self) -> int:
        """cuMemAddressFree"""
        return self.driver.call("cuMemAddressFree", self.address, ctypes.c_size_t(self.size))


def steps(driver: Driver, size: int) -> Iterator[tuple[str, Callable[[], int]]]:
    """The calls of the program that faults, in order: half of ``size`` plain, an eighth in each of four mappings."""
    plain = [driver.plain(size // 4)[1] for _ in range(2)]
    mapped = [Mapped(driver, size // 8, ctypes.c_uint64(), ctypes.c_uint64()) for _ in range(4)]
    host, other, number = (ctypes.c_char * MIB)(), ctypes.c_void_p(), ctypes.c_size_t()
    page = ctypes.c_void_p((ctypes.addressof(host) + 4095) & ~4095)
    call, stream = driver.call, ctypes.c_void_p()
    event = ctypes.c_void_p()
    yield "cuEventCreate", lambda: call("cuEventCreate", ctypes.byref(event), 2)
    yield "cuStreamCreate", lambda: call("cuStreamCreate", ctypes.byref(stream), 1)
    yield "cuMemHostRegister", lambda: call("cuMemHostRegister_v2", page, ctypes.c_size_t(MIB // 2), 0)
    yield "cuMemCreate of four", lambda: max(each.create() for each in mapped)
    yield "their mapping", lambda: max(each.map() for each in mapped)
    yield (
        "a kernel on plain and mapped memory",
        lambda: driver.launch(plain[0]) or driver.launch(mapped[0].address.value) or call("cuCtxSynchronize"),
    )
    yield "launch of the kernel that faults", lambda: driver.launch(NOWHERE)
    yield "cuCtxSynchronize", lambda: call("cuCtxSynchronize")
    yield "cuStreamSynchronize", lambda: call("cuStreamSynchronize", stream)
    yield "cuStreamQuery", lambda: call("cuStreamQuery", stream)
    yield "cuEventRecord", lambda: call("cuEventRecord", event, stream)
    yield "cuEventQuery", lambda: call("cuEventQuery", event)
    yield "another launch", lambda: driver.launch(plain[0])
    yield "cuMemcpyDtoH", lambda: call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(plain[0]), ctypes.c_size_t(4096))
    yield (
        "cuMemcpyDtoHAsync",
        lambda: call("cuMemcpyDtoHAsync_v2", page, ctypes.c_uint64(plain[0]), ctypes.c_size_t(4096), stream),
    )
    yield "cuMemsetD8", lambda: call("cuMemsetD8_v2", ctypes.c_uint64(plain[0]), 1, ctypes.c_size_t(4096))
    yield "cuMemGetInfo", lambda: call("cuMemGetInfo_v2", ctypes.byref(number), ctypes.byref(ctypes.c_size_t()))
    yield "cuMemAlloc", lambda: driver.plain(MIB)[0]
    yield "cuMemCreate", lambda: Mapped(driver, 2 * MIB, ctypes.c_uint64(), ctypes.c_uint64()).create()
    yield "cuMemHostUnregister", lambda: call("cuMemHostUnregister", page)
    yield "cuMemHostRegister again", lambda: call("cuMemHostRegister_v2", page, ctypes.c_size_t(MIB // 2), 0)
    yield "cuMemUnmap, dead context current", mapped[0].unmap
    yield "cuMemRelease, dead context current", mapped[0].release
    yield "cuMemAddressFree", mapped[0].free
    yield "cuMemRelease of what is mapped", mapped[1].release
    yield "cuMemUnmap of it", mapped[1].unmap
    yield "cuMemFree", lambda: call("cuMemFree_v2", ctypes.c_uint64(plain[0]))
    yield "cuStreamDestroy", lambda: call("cuStreamDestroy_v2", stream)
    yield "cuEventDestroy", lambda: call("cuEventDestroy_v2", event)
    yield "cuCtxSetCurrent(NULL)", lambda: call("cuCtxSetCurrent", None)
    yield "cuMemUnmap, no context current", mapped[2].unmap
    yield "cuMemRelease, no context current", mapped[2].release
    yield (
        "cuMemCreate, no context current",
        lambda: Mapped(driver, 2 * MIB, ctypes.c_uint64(), ctypes.c_uint64()).create(),
    )
    yield "cuCtxCreate", lambda: call("cuCtxCreate_v2", ctypes.byref(other), 0, 0)
    yield "cuCtxSynchronize of it", lambda: call("cuCtxSynchronize")
    yield "work in it", driver.work
    yield "cuCtxDestroy of it", lambda: call("cuCtxDestroy_v2", other)
    yield "cuDevicePrimaryCtxReset", lambda: call("cuDevicePrimaryCtxReset_v2", 0)
    yield "cuMemUnmap after it", mapped[3].unmap
    yield "cuMemRelease after it", mapped[3].release
    yield (
        "cuDevicePrimaryCtxRetain",
        lambda: (
            call("cuDevicePrimaryCtxRetain", ctypes.byref(driver.context), 0) or call("cuCtxSetCurrent", driver.context)
        ),
    )
    yield "cuCtxSynchronize after it", lambda: call("cuCtxSynchronize")
    yield "cuMemGetInfo after it", lambda: call("cuMemGetInfo_v2", ctypes.byref(number), ctypes.byref(number))
    yield "cuMemFree after it", lambda: call("cuMemFree_v2", ctypes.c_uint64(plain[1]))
    yield "work after it", driver.work


FAULT = "launch of the kernel that faults"
LAST = "end"


def victim(size: int) -> None:
    """The program that faults: a step for each line on stdin, and what it answered on stdout."""
    driver = Driver()
    for name, step in steps(driver, size):
        sys.stdin.readline()
        began = time.monotonic()
        result = step()
        print(f"{name}\t{driver.name(result)}\t{time.monotonic() - began:.3f}", flush=True)
    sys.stdin.readline()
    print(f"{LAST}\t\t0", flush=True)


def wanting(size: int) -> None:
    """A program that takes ``size``, works on it and ends."""
    driver = Driver()
    result, address = driver.plain(size)
    result = result or driver.call("cuMemsetD8_v2", ctypes.c_uint64(address), 3, ctypes.c_size_t(size))
    result = result or driver.launch(address) or driver.call("cuCtxSynchronize")
    print(f"done\t{driver.name(result)}\t0", flush=True)


def hog(left: int) -> None:
    """Takes all but ``left`` of the GPU until stdin ends."""
    driver, free = Driver(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(ctypes.c_size_t()))
    result = driver.plain(free.value - left)[0] if free.value > left else 0
    print(f"hog\t{driver.name(result)}\t0", flush=True)
    sys.stdin.read()


class Program:
    """This script in another role; what it writes to stderr goes to ours."""

    def __init__(self, role: str, size: int, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--role", role, "--bytes", str(size)],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def answer(self) -> tuple[str, str, str] | None:
        """Its next line; None when it ended, or has none in time."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], ANSWER_SECONDS)[0]:
            return None
        line = self.process.stdout.readline().rstrip("\n").split("\t")
        return (line[0], line[1], line[2]) if len(line) == 3 else None

    def next(self) -> tuple[str, str, str] | None:
        """Lets it make the next step."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write("\n")
        return self.answer()

    def end(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(role: str, size: int, environment: Mapping[str, str]) -> Iterator[Program]:
    """A program for as long as the block runs."""
    program = Program(role, size, environment)
    try:
        yield program
    finally:
        program.end()


def used_mib() -> int:
    """What NVML says is in use of GPU 0, by all processes."""
    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used) // MIB


def used_by(pid: int) -> str:
    """What NVML says that a process has; "?" where it does not know it, as in another pid namespace."""
    for each in pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0)):
        if each.pid == pid and each.usedGpuMemory is not None:
            return f"{each.usedGpuMemory // MIB} MiB"
    return "?"


def all_answers(size: int, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each step with its answer, and what NVML says then, over what it said before the program began."""
    before, rows = used_mib(), []
    with running("victim", size, environment) as program:
        while (answer := program.next()) is not None and answer[0] != LAST:
            name, result, seconds = answer
            slow = f", {seconds} s" if float(seconds) > 0.5 else ""
            rows.append((name, f"{result}{slow}; {used_mib() - before} MiB, its own {used_by(program.process.pid)}"))
        if answer is None:
            rows.append(("next", f"no answer in {ANSWER_SECONDS:g} s; {used_mib() - before} MiB"))
    return rows


def room(size: int, wanted: int, environment: Mapping[str, str], *, asks_on: bool) -> str:
    """How another program fares that needs more than a dead one leaves."""
    with running("victim", size, environment) as program:
        while (answer := program.next()) is not None and answer[0] != FAULT:
            pass
        if asks_on:
            answer = program.next()
        began, first = time.monotonic(), used_mib()
        with running("wanting", wanted, environment) as other:
            done = other.answer()
        took = time.monotonic() - began
        what = f"{done[1]} after {took:.1f} s" if done else f"nothing in {ANSWER_SECONDS:g} s"
        return f"{what}; in use {first} MiB before, {used_mib()} MiB after"


def table(size: int, wanted: int) -> list[str]:
    """The whole experiment as lines of a table."""
    lines = ["| step | natively | with nvshare |", "|---|---|---|"]
    native = all_answers(size, os.environ)
    with scheduler() as clients:
        shared = dict(all_answers(size, clients))
    lines += [f"| {name} | {answer} | {shared.get(name, 'not reached')} |" for name, answer in native]
    lines += [f"| {name} | not reached | {answer} |" for name, answer in shared.items() if name not in dict(native)]
    for asks_on in (False, True):
        with scheduler() as clients:
            shown = room(size, wanted, clients, asks_on=asks_on)
        lines.append(f"| another program, after the fault{' was answered' * asks_on} | - | {shown} |")
    return lines


def main() -> None:
    """One role, or the experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=["victim", "wanting", "hog"])
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--left", type=int, default=12288, help="MiB of the GPU that the experiment may use")
    options = parser.parse_args()
    if options.role:
        {"victim": victim, "wanting": wanting, "hog": hog}[options.role](options.bytes)
        return
    pynvml.nvmlInit()
    left = min(options.left * MIB, pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).total)
    size, wanted = left // 8 * 4 // (16 * MIB) * 16 * MIB, left // 8 * 5
    with running("hog", left, os.environ) as filler:
        filler.answer()
        print(f"GPU of {left // MIB} MiB: the one that faults has {size // MIB}, who needs room {wanted // MIB} MiB")
        lines = table(size, wanted)
    show("dead_context", lines)


if __name__ == "__main__":
    main()
