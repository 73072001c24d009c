"""What others wait while processes send one kind of message without end, over one or many connections.

Usage: ``python -m bench.floods [--processes N] [--each CONNECTIONS] [--beside] [KIND ...]``. A real scheduler process
under ``exclusive``; prints the time from LOCK_RELEASED sent to the next client's LOCK_OK received, without and with
each kind of flood. ``--beside``: the floods' clients are on the device whose lock is handed over, and idle there.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import select
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.handover import measure
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.wire_client import DEVICE, GIB, OTHER_DEVICE, Scheduler

HANDOVERS: Final = 300
AT_ONCE: Final = 64
"""Messages in one send."""
Kind = Callable[[int, int], list[wire.ClientFrame]]
"""The messages that a flood's connection sends again and again, by the process's number and its own."""


def _footprints(_process: int, _connection: int) -> list[wire.ClientFrame]:
    return [wire.Footprint(GIB)]


def _join(*key: int) -> wire.Join:
    return wire.Join(1, bytes((*key, 1)).ljust(wire.KEY_BYTES, b"\0"), wire.Tie.COLLECTIVE)


def _joins_of_one_gang(process: int, _connection: int) -> list[wire.ClientFrame]:
    return [_join(process)]


def _joins_of_pairs(process: int, connection: int) -> list[wire.ClientFrame]:
    return [_join(process, connection // 2)]


def _joins_of_many_keys(process: int, _connection: int) -> list[wire.ClientFrame]:
    return [_join(process, key) for key in range(AT_ONCE)]


def _joins_and_leaves(process: int, _connection: int) -> list[wire.ClientFrame]:
    join = _join(process)
    return [join, wire.Leave(join.key, join.tie)]


def _growths(_process: int, connection: int) -> list[wire.ClientFrame]:
    return [wire.Grow(order, GIB + connection, 0) for order in range(1, AT_ONCE + 1)]


def _memory(_process: int, _connection: int) -> list[wire.ClientFrame]:
    return [wire.Resident(0, size, 0) for size in (GIB, 2 * GIB)]


def _questions(_process: int, _connection: int) -> list[wire.ClientFrame]:
    return [wire.AskReason()]


KINDS: Final[dict[str, Kind]] = {
    "footprints": _footprints,
    "joins-of-one-gang": _joins_of_one_gang,
    "joins-of-pairs": _joins_of_pairs,
    "joins-of-many-keys": _joins_of_many_keys,
    "joins-and-leaves": _joins_and_leaves,
    "growths": _growths,
    "memory": _memory,
    "questions": _questions,
}
SWAPS: Final = ("growths", "memory")


def flood(path: str, kind: str, device: bytes, process: int, each: int) -> None:
    """Sends until it is killed, reads the answers, and connects again where it is sent away."""
    poller = select.epoll()
    connections: dict[int, _Connection] = {}
    register = wire.encode(wire.Register(device, 16 * GIB, swaps=kind in SWAPS))

    def connect(data: bytes) -> None:
        one = socket.socket(socket.AF_UNIX)
        one.connect(path)
        one.sendall(register)
        one.setblocking(False)
        connections[one.fileno()] = _Connection(one, data, data)
        poller.register(one, select.EPOLLOUT)

    for number in range(each):
        frames = KINDS[kind](process, number)
        connect(b"".join(map(wire.encode, frames)) * (AT_ONCE // len(frames)))
    while True:
        for descriptor, _ in poller.poll():
            try:
                connections[descriptor].go_on()
            except OSError:
                lost = connections.pop(descriptor)
                lost.socket.close()
                connect(lost.data)


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    data: bytes
    rest: bytes

    def go_on(self) -> None:
        """Sends what the socket takes; OSError when the connection has ended."""
        with contextlib.suppress(BlockingIOError):
            self.socket.recv(65536)
        with contextlib.suppress(BlockingIOError):
            self.rest = self.rest[self.socket.send(self.rest) :] or self.data


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--each", type=int, default=100, help="connections of each process")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"some of {', '.join(KINDS)}; default: all")
    options = parser.parse_args()
    for kind in (None, *(options.kinds or KINDS)):
        with (
            tempfile.TemporaryDirectory(prefix="nvshare-") as folder,
            Scheduler(Path(folder) / "run", "--policy", "exclusive") as scheduler,
        ):
            if kind is None:
                _print("alone", scheduler)
            else:
                _measure(scheduler, kind, options.processes, options.each, DEVICE if options.beside else OTHER_DEVICE)


def _measure(scheduler: Scheduler, kind: str, processes: int, each: int, device: bytes) -> None:
    start = partial(multiprocessing.get_context("spawn").Process, target=flood, daemon=True)
    path = os.fspath(scheduler.run_dir.client_socket)
    floods = [start(args=(path, kind, device, process, each)) for process in range(processes)]
    for one in floods:
        one.start()
    try:
        poll_until(lambda: len(scheduler.states()) == processes * each, "the flood has begun", 60)
        _print(f"{kind}, {processes} x {each} connections", scheduler)
    finally:
        for one in floods:
            one.kill()
            one.join()


def _print(what: str, scheduler: Scheduler) -> None:
    took = [1000 * each for each in measure(scheduler, 2, HANDOVERS)]
    print(f"{what}: hand-over p50 {took[len(took) // 2]:.3f} ms, p99 {took[int(len(took) * 0.99)]:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
