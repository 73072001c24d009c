"""Programs under the library that give memory to each other (CUDA IPC): each does what a test says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from nvshare import simgpu
from nvshare.paths import LD_PRELOAD, MEMORY, RUN_DIR, RunDir
from tests.conftest import SOURCE_ROOT, Libraries

_PROGRAM = """
import ctypes, os, sys
from tests.simgpu.device import Device, allocate, call, error
from cuda.bindings import driver
device = Device.open(int(sys.argv[1]))
def get(address):
    handle = call("cuIpcGetMemHandle", address)
    return bytes(ctypes.string_at(handle.getPtr(), 64)).hex()
def handle_of(text):
    handle = driver.CUipcMemHandle()
    ctypes.memmove(handle.getPtr(), bytes.fromhex(text), 64)
    return handle
def open_it(text, flags=1):
    result, pointer = driver.cuIpcOpenMemHandle(handle_of(text), flags)
    return int(pointer) if result == 0 else result.name
def close(pointer):
    return driver.cuIpcCloseMemHandle(pointer)[0].name
def files():
    return len(os.listdir("/proc/self/fd"))
def attribute(name, pointer):
    found = call("cuPointerGetAttribute", getattr(driver.CUpointer_attribute, "CU_POINTER_ATTRIBUTE_" + name), pointer)
    return int(found)
def fork(text):
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, eval(text).__repr__().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        return said.read()
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except RuntimeError as failed:
        print(repr(str(failed)), flush=True)
"""


class SharingProgram:
    """One of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        assert said, self.process.stderr and self.process.stderr.read()
        return said

    def begin(self, expression: str) -> None:
        """Tells it to do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def answer(self) -> object:
        """What came of it."""
        return eval(self._line())

    def do(self, expression: str) -> object:
        """Both."""
        self.begin(expression)
        return self.answer()

    def number(self, expression: str) -> int:
        """The same, which is a number."""
        value = self.do(expression)
        assert isinstance(value, int), value
        return value

    def text(self, expression: str) -> str:
        """The same, which is a text."""
        value = self.do(expression)
        assert isinstance(value, str), value
        return value

    def kill(self) -> str:
        """Ends it at once; what it said on stderr."""
        self.process.kill()
        return self.process.communicate()[1]


class StartSharing(Protocol):
    """Starts a program on a device."""

    def __call__(
        self, ordinal: int = 0, *before: str, user: int | None = None, cgroup: Path | None = None
    ) -> SharingProgram:
        """``before``: what comes before the command; ``user``: who runs it; ``cgroup``: the folder that it joins."""


@contextmanager
def sharing_programs(libraries: Libraries, run_dir: RunDir, folder: Path, devices: str) -> Iterator[StartSharing]:
    """Each is ended with the context."""
    variables = simgpu.environment(folder, devices) | {
        LD_PRELOAD: os.fspath(libraries.shim),
        RUN_DIR: os.fspath(run_dir.root / "run"),
        MEMORY: "swap",
        "PYTHONPATH": f"{SOURCE_ROOT.parent}:{SOURCE_ROOT}",
        "PATH": "/usr/bin:/bin",
    }
    with ExitStack() as stack:

        def start(
            ordinal: int = 0, *before: str, user: int | None = None, cgroup: Path | None = None
        ) -> SharingProgram:
            command = [*before, sys.executable, "-c", _PROGRAM, str(ordinal)]
            if cgroup is not None:
                command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', os.fspath(cgroup), *command]
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True, user=user
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return SharingProgram(process)

        yield start
