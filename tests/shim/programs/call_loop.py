"""Calls the driver as its stdin says, a call a line, and answers each with its result: for tests of swapping.

The words of a call are numbers; ``name`` or ``name+offset``, which is a variable's value; ``&name``, which is where the
variable is. A variable has 64 bits and is made when it is first named. Other lines are the commands below.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from nvshare.simgpu import KERNELS_PTX

DRIVER = ctypes.CDLL("libcuda.so.1")
KERNELS = KERNELS_PTX.read_bytes()
VARIABLES: dict[str, ctypes.c_uint64] = {}
FUNCTIONS: dict[tuple[int | None, str], ctypes.c_void_p] = {}
"""By context."""
WRONG = ctypes.c_void_p()
"""Where kernels count; on the host, so that it is no device memory of the program's."""
BESIDE: list[Future[int]] = []
"""Calls in threads of their own."""
HOST = mmap.mmap(-1, 1 << 26)
"""What copies from and to the host use: the variable ``host`` is its address."""
ODD, WORD = 0x9E3779B97F4A7C15, 0xFFFFFFFFFFFFFFFF


class ALLOCATION(ctypes.Structure):
    """CUmemAllocationProp of plain memory of a device."""

    _fields_ = [("words", ctypes.c_int * 8)]


class ACCESS(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("words", ctypes.c_int * 3)]


def variable(name: str) -> ctypes.c_uint64:
    """The one of that name."""
    return VARIABLES.setdefault(name, ctypes.c_uint64())


def number(word: str) -> int:
    """What a word of a call stands for."""
    if word.startswith("&"):
        return ctypes.addressof(variable(word[1:]))
    name, _, offset = word.partition("+")
    return int(name, 0) if name[0].isdigit() else variable(name).value + int(offset or "0", 0)


def call(function: str, *words: str) -> int:
    """The result of a call."""
    return int(DRIVER[function](*(ctypes.c_uint64(number(word)) for word in words)))


def right(result: int) -> None:
    """Ends the program when a call fails whose result nobody sees."""
    if result:
        raise RuntimeError(f"CUDA error {result}")


def kernel(name: str) -> ctypes.c_void_p:
    """A built-in kernel in the current context."""
    context = ctypes.c_void_p()
    right(DRIVER.cuCtxGetCurrent(ctypes.byref(context)))
    if (context.value, name) not in FUNCTIONS:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        right(DRIVER.cuModuleLoadData(ctypes.byref(module), KERNELS))
        right(DRIVER.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        FUNCTIONS[context.value, name] = function
    return FUNCTIONS[context.value, name]


def launch(name: str, stream: int, *numbers: int) -> int:
    """The result of the launch of a kernel."""
    values = [ctypes.c_uint64(each) for each in numbers]
    places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    sizes = (1, 1, 1, 32, 1, 1, 0)
    return int(DRIVER.cuLaunchKernel(kernel(name), *sizes, ctypes.c_uint64(stream), places, None))


def forget() -> None:
    """Contexts have ended, and what they had."""
    FUNCTIONS.clear()
    WRONG.value = None


def spin(milliseconds: str) -> int:
    """Occupies the device for a time; does not wait for that."""
    return launch("nvs_spin", 0, int(milliseconds) * 1_000_000)


def stamp(address: str, size: str, seed: str, stream: str = "0") -> int:
    """Writes every byte of a range; passes the gate."""
    return launch("nvs_stamp_u64", number(stream), number(address), number(seed), number(size) // 8, 1)


def wrong(address: str, size: str, seed: str) -> str:
    """How many words of the range are not as a stamp left them; passes the gate."""
    if WRONG.value is None:
        right(DRIVER.cuMemHostAlloc(ctypes.byref(WRONG), ctypes.c_size_t(8), 0))
    count = ctypes.c_uint64.from_address(WRONG.value or 0)
    count.value = 0
    result = launch("nvs_count_wrong_u64", 0, number(address), number(seed), number(size) // 8, 1, WRONG.value or 0)
    result = result or DRIVER.cuCtxSynchronize()
    return f"error {result}" if result else str(count.value)


def stamped(size: str, seed: str) -> None:
    """Writes to ``host`` what a stamp would."""
    words = ((at * ODD & WORD ^ number(seed)).to_bytes(8, "little") for at in range(number(size) // 8))
    HOST[: number(size)] = b"".join(words)


def held(size: str, seed: str) -> bool:
    """Whether ``host`` has what a stamp would write."""
    found = memoryview(HOST)[: number(size)].cast("Q")
    return all(word == at * ODD & WORD ^ number(seed) for at, word in enumerate(found))


def describe(ordinal: str, kind: str = "1", flags: str = "3") -> None:
    """Fills ``allocation`` and ``access`` for memory of a device that this device may read and write.

    ``kind``: of the place, CUmemLocationType; ``flags``: what it may do, CUmemAccess_flags.
    """
    device = number(ordinal)
    ALLOCATION.from_address(variable("allocation").value).words[:] = [1, 0, 1, device, 0, 0, 0, 0]
    ACCESS.from_address(variable("access").value).words[:] = [number(kind), device, number(flags)]


def value(name: str) -> int:
    """Of a variable."""
    return variable(name).value


def let(name: str, word: str) -> None:
    """Changes a variable."""
    variable(name).value = number(word)


def beside(function: str, *words: str) -> int:
    """Makes a call in a thread of its own, in the primary context; ``joined`` has its result."""
    context = variable("primary0").value

    def run() -> int:
        right(DRIVER.cuCtxSetCurrent(ctypes.c_uint64(context)))
        return call(function, *words)

    BESIDE.append(ThreadPoolExecutor(1).submit(run))
    return 0


def joined() -> int:
    """Waits for it."""
    return BESIDE.pop().result()


def fork(does: str) -> int:
    """Forks a child that uses no GPU, and waits for its end; its exit status."""
    if not (child := os.fork()):
        if does == "executes":
            os.execv("/bin/true", ["true"])
        if does == "ends":
            sys.exit()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


COMMANDS: dict[str, Callable[..., object]] = {
    command.__name__: command
    for command in (forget, spin, stamp, wrong, stamped, held, describe, value, let, beside, joined, fork)
}


def main() -> None:
    """Until stdin ends; that is the program's end, as its author wanted it."""
    variable("host").value = ctypes.addressof(ctypes.c_char.from_buffer(HOST))
    described = ALLOCATION(), ACCESS()
    for name, each in zip(("allocation", "access"), described, strict=True):
        variable(name).value = ctypes.addressof(each)
    for line in sys.stdin:
        name, *words = line.split()
        print(COMMANDS[name](*words) if name in COMMANDS else call(name, *words), flush=True)


main()
