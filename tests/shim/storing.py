"""Steps that tests share of programs whose host memory goes into a file while they sleep."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import Peer
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.swapping import reach_registered, reach_written

X_BYTES = 2 * CHUNK
ARENA_BYTES = 4 * CHUNK


def fall_asleep(peer: Peer) -> None:
    """Closes the door, as soon as the mover has done what follows its last copy."""

    def answer() -> wire.Frame:
        peer.send(wire.Sleep(1))
        while isinstance(frame := peer.receive(), wire.Footprint | wire.Resident):
            pass
        return frame

    poll_until(lambda: answer() == wire.Asleep(1), "the door is closed")


def bring_out(peer: MemoryPeer) -> None:
    """All that can move is in host memory."""
    peer.evict(0)
    peer.heard(resident_bytes=0, order=peer.order)


def reach_asleep(program: ControlledProgram, scheduler: FakeScheduler) -> MemoryPeer:
    """It sleeps, and host memory has what it wrote into ``x``."""
    peer = reach_registered(program, scheduler, ARENA_BYTES)
    reach_written(program, peer, "x", X_BYTES)
    bring_out(peer)
    fall_asleep(peer.peer)
    return peer


def empty_file(folder: Path) -> int:
    """A file without a name; with direct access where the folder has that."""
    flags = os.O_TMPFILE | os.O_RDWR
    with suppress(OSError):
        return os.open(folder, flags | os.O_DIRECT, 0o600)
    return os.open(folder, flags, 0o600)


def ask_to_store(peer: MemoryPeer, descriptor: int) -> None:
    """STORE with that file."""
    peer.send_with(wire.encode(wire.Store()), descriptor)


def store(peer: MemoryPeer, folder: Path) -> int:
    """Has its host memory stored; the file."""
    descriptor = empty_file(folder)
    ask_to_store(peer, descriptor)
    peer.expect(wire.Stored)
    return descriptor


def load(peer: MemoryPeer, *sizes: int) -> None:
    """Gives host memory again, in pieces of these sizes, or as one, and waits until it has all."""
    for size in sizes or (ARENA_BYTES,):
        peer.arena(size)
    assert peer.expect(wire.Loaded) == wire.Loaded()


def wake(peer: MemoryPeer, footprint: int = X_BYTES) -> None:
    """It may go on, with all of its memory."""
    peer.peer.send(wire.Awake())
    peer.allot(footprint, footprint)
    peer.heard(resident_bytes=footprint, out_bytes=0)


def has_right_contents(program: ControlledProgram, peer: MemoryPeer, *names: str) -> None:
    """What was written is still there; the lock is given for that."""
    program.begin(f"check {names[0]} {names[0]}")
    peer.grant()
    assert program.answer() == "right"
    for name in names[1:]:
        assert program.do(f"check {name} {name}") == "right"
    peer.take_back()


def maps_arena(pid: int) -> bool:
    """Whether some of the host memory that it was given is in use by the process."""
    return "memfd:arena" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def has_file(pid: int, descriptor: int) -> bool:
    """Whether the process has the file open."""
    own = os.fstat(descriptor)
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if (status := entry.stat()).st_dev == own.st_dev and status.st_ino == own.st_ino:
                return True
    return False


def meet_next(scheduler: FakeScheduler, said: wire.Frame | None = None) -> MemoryPeer:
    """The next scheduler is there, and hears that the program sleeps; before that, what else is said of its memory."""
    scheduler.listen()
    peer = MemoryPeer(scheduler.register(epoch=2))
    if said:
        assert peer.expect(type(said)) == said
    assert peer.expect(wire.Asleep) == wire.Asleep(0)
    return peer
