"""What others wait while one process sends FOOTPRINT without end over very many connections.

Usage: ``python -m bench.floods [CONNECTIONS]``. A real scheduler process under ``exclusive``; prints the time from
LOCK_RELEASED sent to the next client's LOCK_OK received, without and with the flood.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.handover import measure
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.wire_client import GIB, OTHER_DEVICE, Scheduler

_OF_A_PROCESS = 100
_FLOOD = """
import select, socket, sys
path, connections = sys.argv[1], int(sys.argv[2])
register, frames = map(bytes.fromhex, sys.argv[3:])
poller = select.epoll()
open_ones = {}
for _ in range(connections):
    one = socket.socket(socket.AF_UNIX)
    one.connect(path)
    one.sendall(register)
    one.setblocking(False)
    open_ones[one.fileno()] = one
    poller.register(one, select.EPOLLOUT)
while True:
    for descriptor, _ in poller.poll():
        try:
            open_ones[descriptor].send(frames)
        except BlockingIOError:
            pass
"""


def main() -> None:
    """Prints the figures."""
    connections = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    register = wire.encode(wire.Register(OTHER_DEVICE, 16 * GIB)).hex()
    frames = (wire.encode(wire.Footprint(GIB)) * 64).hex()
    with (
        tempfile.TemporaryDirectory(prefix="nvshare-") as folder,
        Scheduler(Path(folder) / "run", "--policy", "exclusive") as scheduler,
    ):
        _print("alone", scheduler)
        each = min(connections, _OF_A_PROCESS)
        arguments = [os.fspath(scheduler.run_dir.client_socket), str(each), register, frames]
        floods = [subprocess.Popen([sys.executable, "-c", _FLOOD, *arguments]) for _ in range(connections // each)]
        try:
            poll_until(lambda: len(scheduler.states()) == connections, "the flood has begun", 60)
            _print(f"beside {connections} connections that flood", scheduler)
        finally:
            for flood in floods:
                flood.kill()
                flood.wait()


def _print(what: str, scheduler: Scheduler) -> None:
    took = [1000 * each for each in measure(scheduler, 2, 300)]
    print(f"{what}: hand-over p50 {took[len(took) // 2]:.3f} ms, p99 {took[int(len(took) * 0.99)]:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
