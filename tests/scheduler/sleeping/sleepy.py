"""A process with contexts on simulated GPUs, for which the test speaks as its library would: it has a door."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from nvshare.device_uuid import device_bytes
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.sleeping.blocks import Blocks
from tests.scheduler.swapper import Swapper
from tests.scheduler.wire_client import TIMEOUT_SECONDS, ClosedError, Scheduler, WireClient
from tests.stopping import stop

GIB = 1 << 30
RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2
OPTIONS = ("--sleep-after", "0.1", "--host-memory", "1GiB")
"""Of a scheduler that puts to sleep who is idle."""

_PROGRAM = """
import ctypes, socket, sys
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
def must(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)
must("cuInit", 0)
orders = socket.socket(fileno=int(sys.argv[1]))
place = c_uint64()
for device in range(int(sys.argv[2])):
    context = c_void_p()
    must("cuDevicePrimaryCtxRetain", byref(context), device)
    must("cuCtxSetCurrent", context)
orders.send(b"ready")
while order := orders.recv(4096).decode():
    what, _, said = order.partition(" ")
    if what == "connect":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(said)
        socket.send_fds(orders, [b"c"], [connection.fileno()])
        connection.close()
        continue
    if what == "managed":
        must("cuMemAllocManaged", byref(place), c_size_t(int(said)), 1)
    elif what == "allocate":
        must("cuMemAlloc_v2", byref(place), c_size_t(int(said)))
    orders.send(b"done")
"""

_STEPS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
for step in sys.argv[2:]:
    assert getattr(cuda, "cuCheckpointProcess" + step.capitalize())(int(sys.argv[1]), None) == 0
"""

_STATE = """
import ctypes, sys
state = ctypes.c_int(-1)
result = ctypes.CDLL("libcuda.so.1").cuCheckpointProcessGetState(int(sys.argv[1]), ctypes.byref(state))
print(result or state.value)
"""


def state_of(pid: int, environment: Mapping[str, str]) -> int:
    """The driver's word for how far a process is, or the number of its refusal."""
    return int(_ask(_STATE, environment, pid))


def _ask(program: str, environment: Mapping[str, str], pid: int, *arguments: str) -> bytes:
    command = [sys.executable, "-S", "-E", "-c", program, str(pid), *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True).stdout


class SleepyProcess:
    """Such a process; a context manager that kills it."""

    def __init__(self, environment: Mapping[str, str], gpus: int = 1) -> None:
        self._environment = {**os.environ, **environment}
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-S", "-E", "-c", _PROGRAM, str(theirs.fileno()), str(gpus)]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=self._environment)
        self.pid = self.process.pid
        theirs.close()
        assert self._orders.recv(8) == b"ready"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._orders.close()
        self.kill()

    def do(self, what: str, size: int) -> None:
        """``allocate`` or ``managed``."""
        self._orders.send(f"{what} {size}".encode())
        assert self._orders.recv(4) == b"done"

    def connect(self, scheduler: Scheduler) -> WireClient:
        """A connection of this process."""
        self._orders.send(b"connect " + os.fsencode(scheduler.run_dir.client_socket))
        _data, descriptors, _flags, _address = socket.recv_fds(self._orders, 1, 1)
        return scheduler.client(socket.socket(fileno=descriptors[0]))

    def state(self) -> int:
        """The driver's word for it, or the number of its refusal."""
        return state_of(self.pid, self._environment)

    def take(self, *steps: str) -> None:
        """The driver is asked for these steps, as by a sleeper."""
        _ask(_STEPS, self._environment, self.pid, *steps)

    def stop(self) -> None:
        """As Ctrl-Z would; returns when it stands still."""
        stop(self.pid)

    def kill(self) -> None:
        """As a crash would; nothing of it is left."""
        self.process.kill()
        self.process.wait()


def sleepers_of(scheduler: Scheduler) -> list[int]:
    """The pids of the sleepers at work."""
    tasks = Path(f"/proc/{scheduler.process.pid}/task").glob("*/children")
    return [int(pid) for children in tasks for pid in children.read_text().split()]


def _page(pid: int) -> mmap.mmap:
    """A page of data as a file takes it that keeps nothing in memory: it begins where a page does."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page[:4] = pid.to_bytes(4)
    return page


class Door:
    """What the clients of one process have in common."""

    def __init__(self) -> None:
        self.is_closed = False
        self.is_lost = False


class Sleepy(Swapper):
    """One of a process's clients, that sleeps when it is told to."""

    def __init__(self, process: SleepyProcess, scheduler: Scheduler, door: Door | None = None, gpu: int = 0) -> None:
        super().__init__(process.connect(scheduler))
        self.process = process
        self.scheduler = scheduler
        self.door = door or Door()
        self.obeys = True
        """It answers when it is to sleep."""
        self.asked: list[int] = []
        """The requests to sleep."""
        self.woken = 0
        self.file: int | None = None
        """What its host memory has is in there."""
        self.refuses_file = ""
        """Why it stores nothing; empty: it does."""
        self.loses_file = False
        """It can't read its file."""
        self.blocks = Blocks()
        """What its host memory has, as far as equal blocks are kept once."""
        self._given: list[int] = []
        """Host memory for what is in its file, or in a pack."""
        self._gpu = gpu

    def come(self) -> Self:
        """It registers on its GPU, with no memory that moves, and says so if its door is closed."""
        uuid = next(device.uuid for device in self.scheduler.status().devices if device.index == str(self._gpu))
        self.register(device_uuid=device_bytes(uuid), total_bytes=2 * GIB, level=wire.LEVEL)  # type: ignore[arg-type]
        self.client.send(wire.Terms(container=f"sleepy-{self.process.pid}"))
        if self.file is not None:
            self.client.send(wire.Stored())
        if self.blocks.away_bytes:
            self.client.send(self.blocks.said)
        if self.door.is_closed:
            self.client.send(wire.Asleep(0))
        return self

    def again(self, scheduler: Scheduler) -> Sleepy:
        """The same one with a new connection, with what it has."""
        self.client.close()
        other = Sleepy(self.process, scheduler, self.door, self._gpu)
        other.memory, other.file, other.blocks = replace(self.memory, order=0), self.file, self.blocks
        return other.come()

    def take(self, frame: wire.Frame) -> None:
        """See ``Swapper``."""
        match frame:
            case wire.Sleep(request):
                self.asked.append(request)
                if self.obeys:
                    self.door.is_closed = True
                    self.client.send(wire.Asleep(request))
            case wire.Awake(lost):
                # Right after that it may be asked to sleep again.
                assert lost or self.process.state() == RUNNING
                self.door.is_closed, self.door.is_lost = False, lost
                self.woken += 1
            case wire.Store():
                self._store()
            case wire.Arena(segment) if self.file is not None:
                self._given.append(segment)
                if sum(self._given) == self.memory.arena_bytes:
                    self._load()
            case wire.Sum() | wire.Pack() | wire.Dedup():
                answer = self.blocks.take(frame, self._last_descriptor())
                if answer is not None:
                    self.client.send(answer)
            case wire.Arena(segment) if self.blocks.away_bytes:
                self._given.append(segment)
                if sum(self._given) == self.blocks.away_bytes:
                    self.blocks.back()
                    self._given.clear()
                    self.client.send(wire.Loaded())
            case wire.Limit():
                pass
            case _:
                super().take(frame)

    def _store(self) -> None:
        file = self._last_descriptor()
        if self.refuses_file:
            os.close(file)
            self.client.send(wire.NotStored(self.refuses_file))
            return
        self.file = file
        os.ftruncate(file, self.memory.arena_bytes)
        os.pwritev(file, [_page(self.process.pid)], 0)
        self.client.send(wire.Stored())

    def _load(self) -> None:
        assert self.file is not None
        page = _page(0)
        os.preadv(self.file, [page], 0)
        assert page[:] == _page(self.process.pid)[:]
        os.close(self.file)
        self.file = None
        self._given.clear()
        self.client.send(wire.Loaded(self.loses_file))

    def _last_descriptor(self) -> int:
        """It came after all host memory, of which nothing stays here."""
        last, descriptors = self.client.raw.descriptors.pop(), self.client.raw.descriptors
        while descriptors:
            os.close(descriptors.pop())
        return last

    def shown(self) -> str:
        """Its state, as the scheduler shows it."""
        return self.scheduler.states().get(self.client.client_id, "gone")

    def sees(self, condition: Callable[[], object], what: str) -> None:
        """Takes frames, if there are any, until this is so."""

        all_see([self], condition, what)

    def falls_asleep(self) -> Self:
        """The scheduler puts it to sleep, since it is idle."""
        self.sees(lambda: self.shown() == "asleep" and self.process.state() == CHECKPOINTED, "it is asleep")
        assert self.door.is_closed
        return self

    def wakes(self) -> Self:
        """A call waits at its door."""
        woken = self.woken
        self.client.send(wire.Wake())
        self.sees(lambda: self.woken > woken, "it is told to open its door")
        return self


def all_see(clients: Iterable[Sleepy], condition: Callable[[], object], what: str) -> None:
    """All take frames, if there are any, until this is so."""

    def look() -> object:
        for client in clients:
            with suppress(TimeoutError, ClosedError):
                while True:
                    client.take(client.client.receive(0.005))
        return condition()

    poll_until(look, what, TIMEOUT_SECONDS)
