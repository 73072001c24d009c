"""Does on a GPU what its stdin says, a command a line, and answers each with a line: what tests of the client drive."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.closing import CLOSERS, OwnFile, numbers

ARGUMENTS = (1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
BESIDE: list[Future[object]] = []
OWN: list[OwnFile] = []


def driver() -> ctypes.CDLL:
    """The driver, opened by the first command that needs it."""
    return ctypes.CDLL("libcuda.so.1", use_errno=True)


def use(ordinal: str = "0") -> int:
    """Makes a context of the device and makes it current."""
    context = ctypes.c_void_p()
    result = int(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), int(ordinal)))
    return result or int(driver().cuCtxSetCurrent(context))


def launch() -> int:
    """Launches a kernel; does not return before it has been submitted."""
    return int(driver().cuLaunchKernel(None, *map(ctypes.c_size_t, ARGUMENTS)))


def launch_errno() -> str:
    """Launches with errno set; its result and errno afterwards."""
    ctypes.set_errno(77)
    return f"{launch()} {ctypes.get_errno()}"


def allocate(size: str) -> int:
    """Allocates device memory."""
    pointer = ctypes.c_ulonglong()
    return int(driver().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(size))))


def symbol(name: str, *arguments: str) -> int:
    """Calls any function of the driver; an argument is a number, or ``*`` and the words that are pointed to."""
    words = []
    for argument in arguments:
        values = [int(value) for value in argument.lstrip("*").split(",")]
        words.append((ctypes.c_uint * len(values))(*values) if argument[0] == "*" else ctypes.c_size_t(values[0]))
    return int(driver()[name](*words))


class Handle(ctypes.Structure):
    """What processes give each other."""

    _fields_ = (("words", ctypes.c_uint * 16),)


def open_handle(name: str, opened: str) -> int:
    """Opens what another process gave out; the driver is to make this of it."""
    handle = Handle((ctypes.c_uint * 16)(*(0x01010101 * word for word in range(16))))
    pointer = ctypes.c_size_t(int(opened))
    return int(driver()[name](ctypes.byref(pointer), handle, 1))


def fail(name: str = "") -> int:
    """From now on a function of the counting driver fails; without a name none does."""
    driver().spy_fail(name.encode() or None)
    return 0


def fork(what: str) -> int:
    """Forks; the child waits for its end (``idle``), or uses a device before that (``use``)."""
    child = os.fork()
    if child:
        return child
    match what:
        case "idle":
            signal.pause()
        case "use":
            use()
            launch()
            signal.pause()
    os._exit(0)


def fork_daemon(way: str) -> int:
    """Forks twice, as daemons do; the last one closes what it does not know and uses the device."""
    reading, writing = os.pipe()
    if child := os.fork():
        os.waitpid(child, 0)
        return int(os.read(reading, 16))
    os.setsid()
    if os.fork():
        os._exit(0)
    os.write(writing, str(os.getpid()).encode())
    CLOSERS[way]()
    use()
    CLOSERS[way]()
    launch()
    signal.pause()
    os._exit(0)


def close_all(way: str) -> str:
    """Closes what it does not know; how many descriptors that were."""
    known = numbers()
    CLOSERS[way]()
    return str(len(known))


def take_places(first: str) -> str:
    """Puts its own files where descriptors are that it does not know."""
    OWN.append(OwnFile.take(numbers(), socket_first=first == "socket"))
    return str(len(OWN[-1].places))


def altered() -> str:
    """What somebody did to its own files, which it closes then."""
    found = [own.altered() for own in OWN]
    while OWN:
        OWN.pop().close()
    return "; ".join(found)


def beside(name: str, *arguments: str) -> int:
    """Does a command in a thread of its own; ``joined`` has its answer."""
    BESIDE.append(ThreadPoolExecutor(1).submit(COMMANDS[name], *arguments))
    return 0


def joined() -> object:
    """Waits for it."""
    return BESIDE.pop().result()


def execute() -> None:
    """Replaces the process by one that waits."""
    os.execv(sys.executable, [sys.executable, "-c", "import signal; print('replaced', flush=True); signal.pause()"])


def threads() -> str:
    """For each thread: its name, its blocked signals, and how often it has slept."""
    wanted = ("Name", "SigBlk", "voluntary_ctxt_switches")
    found = []
    for task in Path("/proc/self/task").iterdir():
        lines = (task / "status").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        found.append(",".join(fields[name] for name in wanted))
    return ";".join(found)


def end_by_sigpipe() -> int:
    """Lets SIGPIPE end the process, as it does with a C program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return 0


def lose_stderr(reader: str) -> int:
    """Has stderr lead into a pipe whose reader is ``gone``, or reads no more and has left it full (``idle``)."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while reader == "idle":
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    os.dup2(writing, 2)
    os.close(writing)
    if reader == "gone":
        os.close(reading)
    return 0


COMMANDS: dict[str, Callable[..., object]] = {
    command.__name__: command
    for command in (
        use,
        launch,
        launch_errno,
        allocate,
        symbol,
        open_handle,
        fail,
        fork,
        execute,
        threads,
        end_by_sigpipe,
        lose_stderr,
        fork_daemon,
        close_all,
        take_places,
        altered,
        beside,
        joined,
    )
}


def serve(commands: Mapping[str, Callable[..., object]]) -> None:
    """Until stdin ends."""
    for line in sys.stdin:
        name, *arguments = line.split()
        print(commands[name](*arguments), flush=True)


if __name__ == "__main__":
    serve(COMMANDS)
