"""The scheduler's own memory."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from nvshare import simgpu
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.resident_memory import LIMIT_BYTES, keeping_bytecode
from tests.scheduler.api.pages import fetch
from tests.scheduler.wire_client import Scheduler

CLIENTS = 100


def test_memory_with_a_hundred_clients(serve: Callable[..., Scheduler], libraries: Libraries, tmp_path: Path) -> None:
    """A hundred processes that want the lock, after status and metrics were asked for: less than 64 MB are resident."""
    environment = simgpu.environment(tmp_path / "simgpu", "2x1GiB") | keeping_bytecode(tmp_path)
    resident = float("inf")
    # Twice: the first compiles.
    for _ in range(2):
        scheduler = serve("--metrics-address=127.0.0.1:0", "--host-memory=64MiB", environment=environment)
        device = uuid.UUID(scheduler.status().devices[0].uuid.removeprefix("GPU-")).bytes
        for client in scheduler.clients_of_others(CLIENTS, 1):
            client.register(device_uuid=device)
            client.send(wire.ReqLock())
        assert len(scheduler.states()) == CLIENTS
        _, text = fetch(int(str(scheduler.logged("metrics")[-1]["port"])), "/metrics")
        (line,) = (line for line in text.splitlines() if line.startswith("process_resident_memory_bytes"))
        resident = float(line.split()[1])
        assert scheduler.terminate() == 0
    assert resident < LIMIT_BYTES
