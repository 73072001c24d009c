"""Steps that tests share of programs that keep blocks of their host memory in a pack while they sleep."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nvshare.protocol import catalogue, wire
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import GRANULE, MemoryPeer, memory_file
from tests.shim.storing import ARENA_BYTES, X_BYTES, bring_out, fall_asleep
from tests.shim.swapping import reach_registered, reach_written

BLOCKS = X_BYTES // GRANULE
ROOM = ARENA_BYTES // GRANULE
KEY = bytes(range(1, catalogue.KEY_BYTES + 1))
WRITE, SHRINK = fcntl.F_SEAL_WRITE, fcntl.F_SEAL_SHRINK
SEALS = WRITE | SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def reach_asleep_with(program: ControlledProgram, scheduler: FakeScheduler, seed: str = "x") -> tuple[MemoryPeer, int]:
    """It sleeps, and host memory has what it wrote into ``x``; the file that host memory is."""
    peer = reach_registered(program, scheduler, 0)
    memory = memory_file(ARENA_BYTES)
    peer.send_with(wire.encode(wire.Arena(ARENA_BYTES)), memory)
    peer.heard(arena_bytes=ARENA_BYTES, usable_bytes=ARENA_BYTES)
    reach_written(program, peer, "x", X_BYTES, seed)
    bring_out(peer)
    fall_asleep(peer.peer)
    return peer, memory


def allocated_bytes(file: int) -> int:
    """The memory that a memory file has."""
    return os.fstat(file).st_blocks * 512


def new_catalogue(room: int = ROOM) -> int:
    """A file of one, with room for so many entries."""
    file = os.memfd_create("catalogue")
    os.write(file, catalogue.head(KEY, room))
    os.truncate(file, catalogue.file_bytes(room))
    return file


def new_pack(blocks: int = BLOCKS) -> int:
    """A file of one to be, of so many blocks."""
    file = os.memfd_create("pack", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.posix_fallocate(file, 0, blocks * GRANULE)
    return file


def seal(pack: int, seals: int = SEALS) -> None:
    """Nobody changes it any more."""
    fcntl.fcntl(pack, fcntl.F_ADD_SEALS, seals)


def sums_in(file: int, count: int) -> list[int]:
    """The sums of a catalogue."""
    return catalogue.sums(os.pread(file, catalogue.file_bytes(count) - catalogue.HEAD_BYTES, catalogue.HEAD_BYTES))


def sum_up(peer: MemoryPeer) -> tuple[int, list[int]]:
    """SUM, and what comes of it: the catalogue and its sums."""
    file = new_catalogue()
    peer.send_with(wire.encode(wire.Sum()), file)
    summed = peer.expect(wire.Summed)
    assert not summed.text
    return file, sums_in(file, summed.count)


def name_blocks(file: int, sums: Sequence[int], blocks: Sequence[int] | None = None) -> None:
    """Writes which block each entry is to be, or that each is its own."""
    data = catalogue.entries(sums, range(len(sums)) if blocks is None else blocks)
    os.pwrite(file, data, catalogue.HEAD_BYTES)


def write_pack(peer: MemoryPeer, pack: int) -> None:
    """PACK."""
    peer.send_with(wire.encode(wire.Pack()), pack)
    assert peer.expect(wire.Packed) == wire.Packed()


def dedup(peer: MemoryPeer, pack: int) -> wire.Deduped:
    """DEDUP."""
    peer.send_with(wire.encode(wire.Dedup()), pack)
    return peer.expect(wire.Deduped)


def away(pack: int, away_bytes: int = X_BYTES) -> wire.Deduped:
    """What is said when so much is away, in this pack."""
    status = os.fstat(pack)
    return wire.Deduped(away_bytes, status.st_size, status.st_ino)


def packed(peer: MemoryPeer) -> tuple[int, int, list[int]]:
    """A pack of all that it has, sealed; its catalogue, with the sums."""
    file, sums = sum_up(peer)
    name_blocks(file, sums)
    pack = new_pack(len(sums))
    write_pack(peer, pack)
    seal(pack)
    return pack, file, sums


def put_away(peer: MemoryPeer) -> int:
    """All that it has is in a pack; that."""
    pack, file, _ = packed(peer)
    assert dedup(peer, pack) == away(pack)
    os.close(file)
    return pack


def maps_pack(pid: int) -> bool:
    """Whether the process has one mapped."""
    return "memfd:pack" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def has_open(pid: int, name: str) -> bool:
    """Whether the process has a memory file of this name open."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if f"memfd:{name}" in str(entry.readlink()):
                return True
    return False
