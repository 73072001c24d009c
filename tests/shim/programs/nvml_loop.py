"""Asks NVML, and uses devices, as its stdin says: a command a line, each answered with a line."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

import pynvml

LISTS = [
    f"nvmlDeviceGet{kind}RunningProcesses{version}"
    for kind in ("Compute", "Graphics", "MPSCompute")
    for version in ("", "_v2", "_v3")
]
ROOMS = (0, 1, 9)


def driver() -> ctypes.CDLL:
    """The driver, opened by the first command that needs it."""
    return ctypes.CDLL("libcuda.so.1")


def library() -> ctypes.CDLL:
    """NVML, past pynvml."""
    return ctypes.CDLL("libnvidia-ml.so.1")


def handle(device: str) -> ctypes.c_void_p:
    """A handle as pynvml gives it."""
    found: ctypes.c_void_p = pynvml.nvmlDeviceGetHandleByIndex(int(device))
    return found


def use(ordinal: str) -> int:
    """Makes a context of the device and makes it current."""
    context = ctypes.c_void_p()
    result = int(driver().cuInit(0) or driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), int(ordinal)))
    return result or int(driver().cuCtxSetCurrent(context))


def allocate(size: str) -> int:
    """Allocates device memory."""
    pointer = ctypes.c_ulonglong()
    return int(driver().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(size))))


def cuda() -> str:
    """Total and free bytes of the current device, as the driver says."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return f"{total.value} {free.value}"


def uuid() -> str:
    """Of the current device, as the driver says."""
    device, found = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    assert driver().cuCtxGetDevice(ctypes.byref(device)) == 0
    assert driver().cuDeviceGetUuid(found, device) == 0
    return bytes(found).hex()


def memory(device: str) -> str:
    """Total, free and used bytes."""
    seen = pynvml.nvmlDeviceGetMemoryInfo(handle(device))
    return f"{seen.total} {seen.free} {seen.used}"


def memory_v2(device: str) -> str:
    """Total, free, used and reserved bytes."""
    seen = pynvml.nvmlDeviceGetMemoryInfo(handle(device), pynvml.nvmlMemory_v2)
    return f"{seen.total} {seen.free} {seen.used} {seen.reserved}"


def pids(device: str) -> str:
    """The processes that compute, as pynvml says."""
    return " ".join(str(process.pid) for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle(device)))


def listed(symbol: str, device: str, room: str) -> str:
    """What a function answers that lists processes, to one with room for so many: result, count, all bytes."""
    kind = ctypes.c_ubyte * ((24 if symbol[-3:] in ("_v2", "_v3") else 16) * int(room))
    count, entries = ctypes.c_uint(int(room)), kind()
    result = library()[symbol](handle(device), ctypes.byref(count), entries if int(room) else None)
    return f"{result} {count.value} {bytes(entries).hex() or '-'}"


def wrong_arguments(device: str) -> str:
    """The results of calls that NVML refuses."""
    count = ctypes.c_uint(1)
    memory_of, list_of = library().nvmlDeviceGetMemoryInfo, library().nvmlDeviceGetComputeRunningProcesses_v3
    newer = (ctypes.c_uint * 10)(1)
    results = [
        memory_of(handle(device), None),
        memory_of(None, ctypes.byref((ctypes.c_uint * 6)())),
        library().nvmlDeviceGetMemoryInfo_v2(handle(device), newer),
        list_of(handle(device), None, None),
        list_of(handle(device), ctypes.byref(count), None),
        list_of(None, ctypes.byref(count), (ctypes.c_uint * 6)()),
    ]
    return " ".join(map(str, results))


def everything(device: str) -> str:
    """Every answer that could be changed, as bytes."""
    plain, newer = (ctypes.c_ubyte * 24)(), (ctypes.c_uint * 10)(0x02000028)
    answers = [
        str(library().nvmlDeviceGetMemoryInfo(handle(device), ctypes.byref(plain))),
        str(library().nvmlDeviceGetMemoryInfo_v2(handle(device), ctypes.byref(newer))),
        bytes(plain).hex(),
        bytes(newer).hex(),
        wrong_arguments(device),
        *(listed(symbol, device, str(room)) for symbol in LISTS for room in ROOMS),
    ]
    return " ".join(answers)


def belongings() -> str:
    """The kinds of files that are open, and the number of threads."""
    files = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    names = sorted(file.partition(":")[0] for file in files if not file.startswith("/proc/"))
    return f"{names} {len(list(Path('/proc/self/task').iterdir()))}"


COMMANDS: dict[str, Callable[..., object]] = {
    command.__name__: command
    for command in (use, allocate, cuda, uuid, memory, memory_v2, pids, listed, wrong_arguments, everything, belongings)
}


def main() -> None:
    """Until stdin ends."""
    pynvml.nvmlInit()
    for line in sys.stdin:
        name, *arguments = line.split()
        print(COMMANDS[name](*arguments), flush=True)


main()
