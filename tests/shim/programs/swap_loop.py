"""Uses memory of a GPU as its stdin says, a command a line, and answers each with a line: for tests of swapping."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

DRIVER = ctypes.CDLL("libcuda.so.1")
POINTERS: dict[str, ctypes.c_ulonglong] = {}
SIZES: dict[str, int] = {}
CONTEXTS: dict[int, ctypes.c_void_p] = {}
STREAMS: list[ctypes.c_void_p] = []
GRAPHS: list[ctypes.c_void_p] = []
PAGE = 4096
WORKING: dict[int, int] = {}
EXECUTOR = ThreadPoolExecutor()
THREADS: dict[str, Future[int]] = {}


def contents(seed: str, size: int) -> bytes:
    """What a seed stands for: every 2 MiB are different."""
    return b"".join(
        hashlib.sha256(f"{seed} {start}".encode()).digest() * (min(1 << 20, size - start) // 32)
        for start in range(0, size, 1 << 20)
    )


def use(ordinal: str = "0") -> int:
    """Makes the device's primary context current."""
    context = CONTEXTS.setdefault(int(ordinal), ctypes.c_void_p())
    if not context:
        result = DRIVER.cuInit(0) or DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(ordinal))
        if result:
            return int(result)
    return int(DRIVER.cuCtxSetCurrent(context))


def release(ordinal: str = "0") -> int:
    """Gives the device's primary context back."""
    del CONTEXTS[int(ordinal)]
    return int(DRIVER.cuDevicePrimaryCtxRelease_v2(int(ordinal)))


def alloc(name: str, size: str) -> int:
    """Allocates device memory."""
    POINTERS[name], SIZES[name] = ctypes.c_ulonglong(), int(size)
    return int(DRIVER.cuMemAlloc_v2(ctypes.byref(POINTERS[name]), ctypes.c_size_t(int(size))))


def alloc_beside(name: str, size: str) -> None:
    """The same in a thread of its own; ``join`` has its answer."""
    THREADS[name] = EXECUTOR.submit(lambda: DRIVER.cuCtxSetCurrent(CONTEXTS[0]) or alloc(name, size))


def write_beside(name: str, seed: str) -> None:
    """Fills it in a thread of its own; ``join`` has its answer."""
    context = CONTEXTS[0]
    THREADS[name] = EXECUTOR.submit(lambda: DRIVER.cuCtxSetCurrent(context) or write(name, seed))


def join(name: str) -> int:
    """Waits for the thread."""
    return int(THREADS.pop(name).result())


def create(name: str, size: str) -> int:
    """Makes device memory by the driver's virtual memory calls, and maps it nowhere."""
    POINTERS[name], SIZES[name] = ctypes.c_ulonglong(), int(size)
    pinned_on_device = (ctypes.c_int * 8)(1, 0, 1)
    return int(DRIVER.cuMemCreate(ctypes.byref(POINTERS[name]), ctypes.c_size_t(int(size)), pinned_on_device, 0))


def create_exported(name: str, size: str) -> int:
    """The same of memory that may be exported, of which the driver is asked whether it makes such."""
    POINTERS[name], SIZES[name] = ctypes.c_ulonglong(), int(size)
    exported = (ctypes.c_int * 8)(1, 1, 1)
    return int(DRIVER.cuMemCreate(ctypes.byref(POINTERS[name]), ctypes.c_size_t(int(size)), exported, 0))


def alloc_array(name: str, size: str) -> int:
    """Makes an array, which can't move."""
    width = 1 << 14
    descriptor = (ctypes.c_size_t * 3)(width, int(size) // width, 1 << 32 | 1)
    POINTERS[name], SIZES[name] = ctypes.c_ulonglong(), int(size)
    return int(DRIVER.cuArrayCreate_v2(ctypes.byref(POINTERS[name]), descriptor))


def alloc_by(function: str, size: str) -> int:
    """Asks another function of the driver for as much; it must not be there."""
    more: dict[str, tuple[object, ...]] = {
        "cuMemAllocAsync": (None,),
        "cuMemAllocManaged": (1,),
        "cuMemCreate": ((ctypes.c_int * 8)(1, 0, 1), ctypes.c_ulonglong(0)),
    }
    return int(
        getattr(DRIVER, function)(ctypes.byref(ctypes.c_ulonglong()), ctypes.c_size_t(int(size)), *more[function])
    )


def address(name: str) -> int:
    """Where it is."""
    return POINTERS[name].value


def free(name: str) -> int:
    """Frees it."""
    return int(DRIVER.cuMemFree_v2(POINTERS.pop(name)))


def write(name: str, seed: str) -> int:
    """Fills it with the seed's contents; passes the gate."""
    data = contents(seed, SIZES[name])
    return int(DRIVER.cuMemcpyHtoD_v2(POINTERS[name], data, ctypes.c_size_t(len(data))))


def check(name: str, seed: str) -> str:
    """Whether it has the seed's contents; passes the gate."""
    data = ctypes.create_string_buffer(SIZES[name])
    result = DRIVER.cuMemcpyDtoH_v2(data, POINTERS[name], ctypes.c_size_t(SIZES[name]))
    return str(result) if result else "right" if data.raw == contents(seed, SIZES[name]) else "wrong"


def poke(name: str, place: str, value: str) -> int:
    """Writes one byte; passes the gate."""
    return int(DRIVER.cuMemcpyHtoD_v2(ctypes.c_ulonglong(address(name) + int(place)), bytes([int(value)]), 1))


def peek(name: str, place: str) -> int:
    """Reads one byte; passes the gate. A negative answer is the driver's."""
    data = ctypes.create_string_buffer(1)
    result = DRIVER.cuMemcpyDtoH_v2(data, ctypes.c_ulonglong(address(name) + int(place)), 1)
    return -result if result else data.raw[0]


def exchange(name: str, one: str, other: str, size: str) -> int:
    """Exchanges two pieces of it; passes the gate."""
    places, length = [address(name) + int(place) for place in (one, other)], ctypes.c_size_t(int(size))
    pieces = [ctypes.create_string_buffer(int(size)) for _ in places]
    result = 0
    for piece, place in zip(pieces, places, strict=True):
        result = result or DRIVER.cuMemcpyDtoH_v2(piece, ctypes.c_ulonglong(place), length)
    for piece, place in zip(pieces, reversed(places), strict=True):
        result = result or DRIVER.cuMemcpyHtoD_v2(ctypes.c_ulonglong(place), piece, length)
    return int(result)


def clear(name: str) -> int:
    """Makes it zero; passes the gate."""
    return int(DRIVER.cuMemsetD8_v2(POINTERS[name], 0, ctypes.c_size_t(SIZES[name])))


def use_another() -> int:
    """Makes another context of the first device current."""
    return int(DRIVER.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0))


def capture(name: str, value: str, mode: str = "0") -> int:
    """Begins to capture a graph that fills the memory with a byte; ``mode``: CUstreamCaptureMode."""
    stream = ctypes.c_void_p()
    size = ctypes.c_size_t(SIZES[name])
    return int(
        DRIVER.cuStreamCreate(ctypes.byref(stream), 1)
        or STREAMS.append(stream)
        or DRIVER.cuStreamBeginCapture_v2(stream, int(mode))
        or DRIVER.cuMemsetD8Async(POINTERS[name], ctypes.c_ubyte(int(value)), size, stream)
    )


def end_capture() -> int:
    """Ends that."""
    GRAPHS.append(ctypes.c_void_p())
    return int(DRIVER.cuStreamEndCapture(STREAMS[-1], ctypes.byref(GRAPHS[-1])))


def replay(name: str, value: str) -> str:
    """Launches the graph; whether the memory has that byte everywhere."""
    executable, data = ctypes.c_void_p(), ctypes.create_string_buffer(SIZES[name])
    result = (
        DRIVER.cuGraphInstantiateWithFlags(ctypes.byref(executable), GRAPHS[-1], ctypes.c_ulonglong(0))
        or DRIVER.cuGraphLaunch(executable, STREAMS[-1])
        or DRIVER.cuMemcpyDtoHAsync_v2(data, POINTERS[name], ctypes.c_size_t(SIZES[name]), STREAMS[-1])
        or DRIVER.cuStreamSynchronize(STREAMS[-1])
    )
    return str(result) if result else "right" if data.raw == bytes([int(value)]) * SIZES[name] else "wrong"


def fail(offset: str, result: str) -> None:
    """From now on the driver's function at that place does nothing and gives that result.

    0: it works again; ``success``: it does nothing and says that it has.
    """
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    base = next(int(line.partition("-")[0], 16) for line in maps if line.endswith("/libcuda.so.1"))
    place = base + int(offset)
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(place & -PAGE), ctypes.c_size_t(2 * PAGE), 7)
    code = ctypes.c_uint64.from_address(place)
    working = WORKING.setdefault(place, code.value)
    # mov eax, RESULT; ret: written in one piece, since another thread may call it just now.
    given = 0 if result == "success" else int(result)
    code.value = working if result == "0" else 0xC300000000B8 | given << 8


def churn(allocate: str, release: str, times: str) -> int:
    """Allocates 2 MiB by a function of the driver and frees them, in the default stream, again and again."""
    pointer = ctypes.c_ulonglong()
    for _ in range(int(times)):
        result = DRIVER[allocate](ctypes.byref(pointer), ctypes.c_size_t(2 << 20), None)
        result = result or DRIVER[release](pointer, None)
        if result:
            return int(result)
    return 0


def fork() -> int:
    """Forks; the child waits for its end."""
    child = os.fork()
    if not child:
        signal.pause()
        os._exit(0)
    return child


def close_all(first: str = "3") -> None:
    """Closes every file that this program has not opened, from this number on."""
    os.closerange(int(first), 1 << 12)


def use_all_files(most: str) -> None:
    """Has as many files open as it may, of which it says how many those are."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(most), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.suppress(OSError):
        while True:
            os.open(os.devnull, os.O_RDONLY)


def stop() -> None:
    """Ends the process as a program does."""
    sys.exit()


COMMANDS: dict[str, Callable[..., object]] = {
    command.__name__: command
    for command in (
        *(
            use,
            release,
            alloc,
            alloc_beside,
            write_beside,
            join,
            create,
            create_exported,
            alloc_array,
            alloc_by,
            address,
            free,
            write,
            check,
        ),
        *(poke, peek, exchange, clear, use_another),
        *(capture, end_capture, replay, fail, churn, fork, close_all, use_all_files, stop),
    )
}


def main() -> None:
    """Until stdin ends."""
    for line in sys.stdin:
        name, *arguments = line.split()
        print(COMMANDS[name](*arguments), flush=True)


main()
