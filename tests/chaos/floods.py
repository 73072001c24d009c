"""Connections of strangers that flood a scheduler, and lie to it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nvshare.protocol import wire
from tests.chaos.chaos import Chaos

MEMORY_BYTES = 8 << 20
"""How much a scheduler may grow in any number of connections: its heap's pieces, not a leak of bytes a connection."""
NUMBERS = (0, 1, 4096, 2 << 20, (2 << 20) + 1, 300 << 20, 1 << 30, 1 << 40, 2**63 - 1, 2**63, 2**64 - 1)
"""Of bytes, orders and requests."""


@contextmanager
def _connections(chaos: Chaos, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(1)
            with contextlib.suppress(OSError):
                connection.connect(str(chaos.run_dir.client_socket))
                opened.append(connection)
        yield opened


def _send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)


def flood_with_garbage(chaos: Chaos) -> None:
    """Many connections that send what is no frame, half a frame, or nothing."""
    whole = wire.encode(wire.ReqLock())
    with _connections(chaos, 100) as opened:
        for connection in opened:
            # Not with a first byte of version 1: any bytes behind it are a command, and root's are obeyed.
            garbage = b"\0" + chaos.random.randbytes(700)
            _send(connection, chaos.random.choice((b"", whole[:100], whole, garbage)))


def flood_with_footprints(chaos: Chaos) -> None:
    """Clients of an unknown device that send nothing but footprints."""
    device = chaos.random.randbytes(wire.UUID_BYTES)
    with _connections(chaos, 20) as opened:
        for connection in opened:
            _send(connection, wire.encode(wire.Register(device, 1 << 30)))
            _send(connection, b"".join(wire.encode(wire.Footprint(size)) for size in range(200)))


def claim_to_hold(chaos: Chaos) -> None:
    """Somebody says that he holds the lock of a device, and does not."""
    with _connections(chaos, 4) as opened:
        for connection, state in zip(opened, (wire.State.HOLDING, wire.State.DRAINING) * 2, strict=False):
            grant = chaos.random.choice((0, 1, 2**63 - 1, 2**64 - 1))
            _send(connection, wire.encode(wire.Register(_some_device(chaos), 16 << 30, state, grant=grant)))
        for connection in opened:
            with contextlib.suppress(OSError):
                connection.recv(4096)


def _some_device(chaos: Chaos) -> bytes:
    uuids = [bytes.fromhex(device.uuid.partition("-")[2].replace("-", "")) for device in chaos.devices()]
    return chaos.random.choice(uuids or [bytes(wire.UUID_BYTES)])


def flood_with_memory(chaos: Chaos) -> None:
    """Clients of an unknown device, and some that have not registered, whose memory is all nonsense."""
    device = chaos.random.randbytes(wire.UUID_BYTES)

    def some() -> int:
        return chaos.random.choice(NUMBERS)

    with _connections(chaos, 20) as opened:
        for connection in opened:
            if chaos.random.random() < 0.9:
                _send(connection, wire.encode(wire.Register(device, 1 << 30, footprint_bytes=some(), swaps=True)))
            frames: list[wire.ClientFrame] = []
            for request in range(50):
                frames.append(wire.Grow(chaos.random.choice((request, some() % 2**32)), some(), some()))
                frames.append(wire.Resident(*(some() for _ in range(9))))
            _send(connection, b"".join(map(wire.encode, frames)))


def claim_arenas(chaos: Chaos) -> None:
    """Somebody says that he has memory out, in arenas that nobody gave him, and goes."""
    with _connections(chaos, 3) as opened:
        for connection in opened:
            size = chaos.random.choice(NUMBERS[:7])
            register = wire.Register(_some_device(chaos), 1 << 30, footprint_bytes=size, swaps=True)
            _send(connection, wire.encode(register))
            claimed = {"out_bytes": size, "arena_bytes": 4 << 30, "usable_bytes": 8 << 30}
            _send(connection, wire.encode(wire.Resident(0, size, 0, **claimed)))
            _send(connection, wire.encode(wire.Resident(7, size, size, lacking_bytes=size)))
        for connection in opened:
            with contextlib.suppress(OSError):
                connection.recv(4096)


def _connect(chaos: Chaos, connections: int) -> None:
    for _ in range(connections // 120):
        flood_with_garbage(chaos)
        flood_with_footprints(chaos)


def memory_growth(chaos: Chaos, connections: int) -> int:
    """By how many bytes the scheduler's own memory grows while so many connections come and go.

    The first tenth is not counted: until then it fills what it keeps.
    """
    _connect(chaos, connections // 10)
    before = _memory_bytes(chaos.scheduler.pid)
    _connect(chaos, connections - connections // 10)
    grown = _memory_bytes(chaos.scheduler.pid) - before
    assert grown <= MEMORY_BYTES, f"the scheduler has grown by {grown} bytes in {connections} connections"
    return grown


def _memory_bytes(pid: int) -> int:
    """Without what it shares with others and with files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10
