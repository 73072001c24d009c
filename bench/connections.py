"""What many clients cost: the scheduler's memory, its time while nothing changes, and the hand-over between two others.

Usage: ``python -m bench.connections [CLIENTS]``. A real scheduler process; the clients, in hundreds, are registered and
idle.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from bench.handover import measure
from nvshare.protocol import wire
from tests.scheduler.wire_client import GIB, OTHER_DEVICE, Scheduler

OBSERVED_SECONDS = 20.0


def resident_mb(pid: int) -> float:
    """The resident memory of a process in millions of bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def idle_share(pid: int) -> float:
    """The share of a core that a process uses over OBSERVED_SECONDS."""

    def used() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    time.sleep(OBSERVED_SECONDS)
    return (used() - before) / os.sysconf("SC_CLK_TCK") / OBSERVED_SECONDS


def main() -> None:
    """Prints the figures."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        tempfile.TemporaryDirectory(prefix="nvshare-") as folder,
        Scheduler(Path(folder) / "run", "--policy", "exclusive") as scheduler,
    ):
        print(f"without clients {resident_mb(scheduler.process.pid):.1f} MB")
        began = time.perf_counter()
        for client in scheduler.clients_of_others(clients // 100):
            client.register(wire.Register(OTHER_DEVICE, 16 * GIB, command="bench"))
        seconds = time.perf_counter() - began
        # All descriptions are made when the newest client has one.
        scheduler.status()
        print(f"{clients} clients {resident_mb(scheduler.process.pid):.1f} MB, registered in {seconds:.1f} s")
        print(f"nothing changes: {idle_share(scheduler.process.pid):.2%} of a core")
        took = [1000 * each for each in measure(scheduler, 2, 5000)]
        print(f"hand-over beside them: p50 {took[len(took) // 2]:.3f} ms, p99 {took[int(len(took) * 0.99)]:.3f} ms")


if __name__ == "__main__":
    main()
