"""How long the lock is with nobody: from LOCK_RELEASED sent to the next client's LOCK_OK received.

Usage: ``python -m bench.handover [HANDOVERS]``. A real scheduler process under ``exclusive``; all clients live in this
process and always want the lock, so the figures include its own wake-up and system calls. "watched": a thread of it
follows the status at the full rate meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc

from nvshare.admin import admin_pb2
from nvshare.protocol import wire
from tests.scheduler.wire_client import Scheduler, WireClient

CLIENTS = (2, 4, 8, 16)


def measure(scheduler: Scheduler, clients: int, handovers: int) -> list[float]:
    """The seconds that each of ``handovers`` hand-overs took, in ascending order."""
    everybody = [scheduler.client().register() for _ in range(clients)]
    by_descriptor = {client.raw.socket.fileno(): client for client in everybody}
    poller = select.epoll()
    for descriptor in by_descriptor:
        poller.register(descriptor, select.EPOLLIN)
    request = wire.encode(wire.ReqLock())
    for client in everybody:
        client.raw.send(request)
    took: list[float] = []
    released_at = 0.0
    while len(took) < handovers:
        for descriptor, _ in poller.poll():
            arrived_at = time.perf_counter()
            client = by_descriptor[descriptor]
            for frame in frames(client):
                if isinstance(frame, wire.LockOk):
                    if released_at:
                        took.append(arrived_at - released_at)
                    release = wire.encode(wire.LockReleased(frame.grant))
                    released_at = time.perf_counter()
                    client.raw.send(release)
                    client.raw.send(request)
    for client in everybody:
        client.close()
    return sorted(took)


def frames(client: WireClient) -> list[wire.Frame]:
    """All that has come, at least one."""
    data = client.raw.socket.recv(65536)
    size = wire.FRAME_BYTES
    return [wire.decode(data[start : start + size]) for start in range(0, len(data), size)]


def watch(scheduler: Scheduler) -> None:
    """Reads every status that the scheduler sends, until it ends."""
    with contextlib.suppress(grpc.RpcError):
        for _ in scheduler.admin.WatchStatus(admin_pb2.WatchStatusRequest()):
            pass


def main() -> None:
    """Prints a table."""
    handovers = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{handovers} hand-overs each, milliseconds")
    print("clients  status      p50      p90      p99      max")
    for clients, watched in itertools.product(CLIENTS, (False, True)):
        with (
            tempfile.TemporaryDirectory(prefix="nvshare-") as folder,
            Scheduler(Path(folder) / "run", "--policy", "exclusive") as scheduler,
        ):
            if watched:
                threading.Thread(target=watch, args=(scheduler,), daemon=True).start()
            took = [1000 * seconds for seconds in measure(scheduler, clients, handovers)]
        p50, p90, p99 = (took[int(len(took) * share)] for share in (0.5, 0.9, 0.99))
        status = "watched" if watched else ""
        print(f"{clients:7}  {status:7}  {p50:7.3f}  {p90:7.3f}  {p99:7.3f}  {took[-1]:7.3f}")


if __name__ == "__main__":
    main()
