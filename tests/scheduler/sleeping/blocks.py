"""The blocks of a client that sleeps, as its library treats them: equal ones may be in a pack."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator

from nvshare.protocol import catalogue, wire

BLOCK = catalogue.BLOCK_BYTES
_ENTRY = struct.Struct("=QI4x")
_TAG = struct.Struct("=Q")
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK


class Blocks:
    """Of each the first bytes stand for all of it."""

    def __init__(self) -> None:
        self.tags: list[int] = []
        """What each has."""
        self.away_bytes = 0
        self.pack: int | None = None
        self.refuses_at = self.hangs_at = ""
        """The frame of which it does nothing, and that which it does not answer."""
        self.breaks_pack = False
        """It writes something else there than it has."""
        self.keeps_mapped = False
        """It could write to the pack later."""
        self.mapped: mmap.mmap | None = None
        self.asked: list[str] = []
        """The frames that came."""
        self._catalogue: int | None = None
        self._pack_bytes = self._pack_name = 0

    def take(self, frame: wire.Sum | wire.Pack | wire.Dedup, descriptor: int) -> wire.ClientFrame | None:
        """What it answers; the descriptor is its own now. None: nothing."""
        step = type(frame).__name__.lower()
        self.asked.append(step)
        if step in (self.hangs_at, self.refuses_at):
            os.close(descriptor)
            return None if step == self.hangs_at else self.late("it does not want to")
        match frame:
            case wire.Sum():
                return self._sum(descriptor)
            case wire.Pack():
                return self._write(descriptor)
            case wire.Dedup():
                return self._dedup(descriptor)

    def late(self, text: str) -> wire.ClientFrame:
        """What it answers to the last frame when nothing is done."""
        answers = {"sum": wire.Summed(0, text), "pack": wire.Packed(text), "dedup": wire.Deduped(text=text)}
        return answers[self.asked[-1]]

    @property
    def said(self) -> wire.Deduped:
        """What it says of those that are away."""
        return wire.Deduped(self.away_bytes, self._pack_bytes, self._pack_name)

    def back(self) -> None:
        """All are in memory again, and have what they had."""
        assert self.pack is not None
        found = list(self._equal(self.pack))
        assert len(found) * BLOCK == self.away_bytes
        os.close(self.pack)
        self.pack, self.away_bytes = None, 0

    def close(self) -> None:
        """Its process ends."""
        if self.mapped is not None:
            self.mapped.close()
        for descriptor in (self._catalogue, self.pack):
            if descriptor is not None:
                os.close(descriptor)

    def _sum(self, descriptor: int) -> wire.Summed:
        if self._catalogue is not None:
            os.close(self._catalogue)
        self._catalogue = descriptor
        key = os.pread(descriptor, catalogue.KEY_BYTES, 0)
        sums = [hashlib.blake2b(_TAG.pack(tag), key=key, digest_size=8).digest() for tag in self.tags]
        os.pwrite(descriptor, b"".join(each + bytes(8) for each in sums), catalogue.HEAD_BYTES)
        return wire.Summed(len(self.tags))

    def _write(self, descriptor: int) -> wire.Packed:
        for tag, block in self._named():
            os.pwrite(descriptor, _TAG.pack(-tag & 0xFFFF if self.breaks_pack else tag), block * BLOCK)
        if self.keeps_mapped:
            self.mapped = mmap.mmap(descriptor, BLOCK)
        os.close(descriptor)
        return wire.Packed()

    def _dedup(self, descriptor: int) -> wire.Deduped:
        assert fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS == _SEALS
        equal = len(list(self._equal(descriptor)))
        if not equal:
            os.close(descriptor)
            return wire.Deduped(text="nothing is equal")
        status = os.fstat(descriptor)
        self.pack, self.away_bytes = descriptor, equal * BLOCK
        self._pack_bytes, self._pack_name = status.st_size, status.st_ino
        return self.said

    def _named(self) -> Iterator[tuple[int, int]]:
        """Those that the catalogue names a block for, with that."""
        assert self._catalogue is not None
        entries = os.pread(self._catalogue, len(self.tags) * _ENTRY.size, catalogue.HEAD_BYTES)
        for tag, (_, block) in zip(self.tags, _ENTRY.iter_unpack(entries), strict=True):
            if block != catalogue.NO_BLOCK:
                yield tag, block

    def _equal(self, pack: int) -> Iterator[tuple[int, int]]:
        return ((tag, block) for tag, block in self._named() if self._read(pack, block) == tag)

    def _read(self, pack: int, block: int) -> int:
        (found,) = _TAG.unpack(os.pread(pack, _TAG.size, block * BLOCK))
        return int(found)
