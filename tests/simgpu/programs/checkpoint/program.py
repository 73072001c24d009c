"""What the processes of a situation can be told to do, each to itself or to another one that it names by its pid."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from tests.simgpu.programs.checkpoint import kinds
from tests.simgpu.programs.checkpoint.driver import MIB, CheckpointArgs, Driver, LockArgs, Nvml, RestoreArgs
from tests.simgpu.programs.checkpoint.probes import PROBES

KERNELS = Path(__file__).parents[4] / "src" / "nvshare" / "simgpu" / "kernels.ptx"


class Program:
    """A process, with what it has on its device. Every public method is an order."""

    def __init__(self) -> None:
        self._driver = Driver()
        self.kernels = KERNELS.read_bytes() + b"\0"
        self.context, self.function, self.event, self.module = c_void_p(), c_void_p(), c_void_p(), c_void_p()
        self.address, self.spare = c_uint64(), c_uint64()
        self._checks: list[kinds.Check] = []
        self._go, self._threads = threading.Event(), list[threading.Thread]()
        self._answers: dict[str, int] = {}

    def initialize(self) -> int:
        """cuInit only."""
        return self._driver.call("cuInit", 0)

    def start(self) -> int:
        """A context, kernels, a little memory and an event."""
        must = self._driver.must
        must("cuInit", 0)
        must("cuDevicePrimaryCtxRetain", byref(self.context), 0)
        must("cuCtxSetCurrent", self.context)
        must("cuModuleLoadData", byref(self.module), self.kernels)
        must("cuModuleGetFunction", byref(self.function), self.module, b"nvs_spin")
        must("cuEventCreate", byref(self.event), 0)
        for place in (self.address, self.spare):
            must("cuMemAlloc_v2", byref(place), c_size_t(4096))
        return self.spin(0)

    def spin(self, ms: int, wait: bool = True) -> int:
        """A kernel that takes so long."""
        result = self._launch(ms)
        return result or (self._driver.call("cuCtxSynchronize") if wait else 0)

    def _launch(self, ms: int) -> int:
        ns = c_uint64(ms * 1_000_000)
        parameters = (c_void_p * 1)(ctypes.addressof(ns))
        grid = (1, 1, 1, 1, 1, 1, 0)
        return self._driver.call("cuLaunchKernel", self.function, *grid, c_void_p(), parameters, c_void_p())

    def hold(self, kind: str, mib: int) -> str:
        """Makes so much of a kind."""
        self._checks.append(kinds.KINDS[kind](self._driver, mib * MIB))
        return "made"

    def fill_up(self, mib: int) -> str:
        """Takes all of the device's free memory but so much."""
        kinds.plain(self._driver, self._driver.free_bytes() - mib * MIB)
        return "full"

    def give(self, mib: int) -> bytes:
        """Memory for another process, and its handle."""
        handle, check = kinds.given(self._driver, mib * MIB)
        self._checks.append(check)
        return handle

    def open(self, handle: bytes) -> str:
        """Memory of another process."""
        kinds.opened(self._driver, handle)
        return "opened"

    def intact(self) -> bool:
        """Whether all is as it was made, and a kernel runs."""
        return all(check() for check in self._checks) and self.spin(1) == 0

    def state(self, pid: int) -> str:
        """The result, and the state if there is one."""
        state = c_int(-1)
        result = self._driver.call("cuCheckpointProcessGetState", pid, byref(state))
        return f"{result}, state {state.value}" if state.value != -1 else str(result)

    def thread(self, pid: int) -> str:
        """The result, and whose thread it is."""
        tid = c_int(-1)
        result = self._driver.call("cuCheckpointProcessGetRestoreThreadId", pid, byref(tid))
        if tid.value == -1:
            return str(result)
        owner = "of the process" if Path(f"/proc/{pid}/task/{tid.value}").exists() else "of nobody"
        return f"{result}, {'its first thread' if tid.value == pid else f'a thread {owner}'}"

    def null_answers(self, pid: int) -> str:
        """The results without a place for the answer."""
        names = ("cuCheckpointProcessGetState", "cuCheckpointProcessGetRestoreThreadId")
        return ", ".join(str(self._driver.call(name, pid, c_void_p())) for name in names)

    def step(self, name: str, pid: int, timeout_ms: int | None = 5000, reserved: int = 0) -> tuple[int, float]:
        """One of lock, checkpoint, restore, unlock: its result and how many ms it took. None: without arguments."""
        arguments: Any = c_void_p()
        if timeout_ms is not None and name == "lock":
            arguments = byref(LockArgs(timeoutMs=timeout_ms, reserved0=reserved))
        elif timeout_ms is not None:
            kind = RestoreArgs if name == "restore" else CheckpointArgs
            filled = kind()
            ctypes.memset(ctypes.byref(filled, ctypes.sizeof(filled) - 8), reserved, 8)
            arguments = byref(filled)
        begun = time.monotonic()
        result = self._driver.call(f"cuCheckpointProcess{name.capitalize()}", pid, arguments)
        return result, (time.monotonic() - begun) * 1000

    def device_memory(self) -> tuple[int, int, dict[int, int]]:
        """MiB: what cuMemGetInfo says is free, what NVML says is used, and by whom. Needs a context."""
        nvml = Nvml()
        processes = {pid: size // MIB for pid, size in nvml.processes().items()}
        return self._driver.free_bytes() // MIB, nvml.used_bytes() // MIB, processes

    def prepare(self, names: list[str]) -> None:
        """A thread for each of these calls, which has the context and waits."""
        ready = threading.Barrier(len(names) + 1)
        for name in names:
            thread = threading.Thread(target=self._call_when_told, args=(name, ready), daemon=True)
            self._threads.append(thread)
            thread.start()
        ready.wait(5)

    def go(self, seconds: float) -> dict[str, int]:
        """All of them call; the results of those that have answered, at most so much later."""
        end = time.monotonic() + seconds
        self._go.set()
        while time.monotonic() < end and any(thread.is_alive() for thread in self._threads):
            time.sleep(0.005)
        return dict(self._answers)

    def _call_when_told(self, name: str, ready: threading.Barrier) -> None:
        self._driver.must("cuCtxSetCurrent", self.context)
        ready.wait(5)
        self._go.wait()
        self._answers[name] = self._probe(name)

    def _probe(self, name: str) -> int:
        return self._launch(0) if name == "cuLaunchKernel" else self._driver.call(name, *PROBES[name](self))

    @staticmethod
    def probes() -> list[str]:
        """The calls that threads can make, by name."""
        return ["cuLaunchKernel", *PROBES]

    @staticmethod
    def fork() -> int:
        """A child that only waits; its pid."""
        pid = os.fork()
        if pid == 0:
            signal.pause()
        return pid

    @staticmethod
    def become(user: int) -> int:
        """Another user; which one it is then."""
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        return os.geteuid()

    @staticmethod
    def leave() -> None:
        """Ends in order, with what libraries do at the end."""
        ctypes.CDLL(None).exit(0)
